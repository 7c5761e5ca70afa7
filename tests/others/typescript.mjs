// A server made with the TypeScript SDK 2.x, which serves both eras with one tool, over stdio.
//
// node typescript.mjs FOLDER: where the SDK's package has its modules. The key of the states is
// fixed, since each connection starts a process of its own.

import { pathToFileURL } from "node:url";

const load = (module) => import(pathToFileURL(`${process.argv[2]}/${module}`));
const sdk = await load("index.mjs");
const { serveStdio } = await load("stdio.mjs");

const object = (properties) => ({ type: "object", properties, required: Object.keys(properties) });
const says = (text) => ({ content: [{ type: "text", text }] });

function ask(key, message, properties, requestState) {
  const question = { message, requestedSchema: object(properties) };
  const inputRequests = { [key]: sdk.inputRequired.elicit(question) };
  return sdk.inputRequired({ inputRequests, ...(requestState && { requestState }) });
}

const codec = sdk.createRequestStateCodec({ key: "a key that all these processes have in common" });
const inputSchema = sdk.fromJsonSchema(object({ env: { type: "string" } }));

function makeServer() {
  const server = new sdk.McpServer(
    { name: "typescript", version: "1" },
    { capabilities: { tools: {} }, requestState: { verify: codec.verify } },
  );

  server.registerTool("deploy", { inputSchema }, async ({ env }, { mcpReq }) => {
    const answer = sdk.inputResponse(mcpReq.inputResponses, "confirm");
    if (answer.kind === "missing") {
      return ask("confirm", `Deploy to ${env}?`, { confirm: { type: "boolean" } });
    }
    const confirmed = answer.action === "accept" && answer.content.confirm;
    return says(confirmed ? `deployed to ${env}` : `not deployed: ${answer.action}`);
  });

  server.registerTool("rename", { inputSchema }, async ({ env }, { mcpReq }) => {
    const state = mcpReq.requestState();
    const named = sdk.acceptedContent(mcpReq.inputResponses, "name");
    const counted = sdk.acceptedContent(mcpReq.inputResponses, "count");
    if (state && counted) {
      return says(JSON.stringify({ ...state, ...counted }));
    }
    if (state && named) {
      const next = await codec.mint({ ...state, ...named });
      return ask("count", `How many of ${named.name}?`, { count: { type: "integer" } }, next);
    }
    const first = await codec.mint({ env });
    return ask("name", `What is ${env} to be called?`, { name: { type: "string" } }, first);
  });

  return server;
}

serveStdio(makeServer);
