// A conversation in which an agent's questions appear. What waits, what is asked and what becomes of
// an answer all comes from the API; the demo site itself only starts runs and tells how they end.
//
// Text that a server wrote goes into the page as text (textContent), never as markup.

"use strict";

const PAUSE = 2000;

const main = document.querySelector("[data-chat]");
const log = main.querySelector("[data-log]");
const status = main.querySelector("[data-status]");
const token = main.querySelector("[name=csrfmiddlewaretoken]").value;
const questions = main.dataset.questions;
const pages = main.dataset.pages;

/** What the conversation shows, by id: the bubble of a question that waits. */
const shown = new Map();
/** The runs that were started here and have not ended. */
const runs = new Set();
let timer = 0;
let looking = false;

// --- Talking to the site ---------------------------------------------------------------------

/** Send a request; the answer is the status and the JSON body, errors of the API included. */
async function send(url, body) {
  const options = { headers: { Accept: "application/json" } };
  if (body !== undefined) {
    options.method = "POST";
    options.body = JSON.stringify(body);
    options.headers["Content-Type"] = "application/json";
    options.headers["X-CSRFToken"] = token;
  }
  const response = await fetch(url, options);
  return { status: response.status, body: await response.json() };
}

async function look() {
  window.clearTimeout(timer);
  if (looking) return;
  looking = true;
  try {
    const waiting = await send(`${questions}?state=pending`);
    if (waiting.status === 200) {
      for (const { id } of waiting.body.results) {
        if (!shown.has(id)) await showQuestion(id);
      }
      const ids = new Set(waiting.body.results.map(({ id }) => id));
      // A full page may hide some that still wait.
      if (waiting.body.next === null) await closeOthers(ids);
    }
    for (const url of runs) await showOutcome(url);
    status.textContent = waiting.status === 200 ? "" : waiting.body.detail;
  } catch {
    status.textContent = "The site does not answer. Trying again …";
  }
  looking = false;
  if (!document.hidden) timer = window.setTimeout(look, PAUSE);
}

async function start(tool) {
  say("you", [paragraph(`Please run ${tool}.`)]);
  const form = new URLSearchParams({ tool, csrfmiddlewaretoken: token });
  const response = await fetch(main.dataset.runs, { method: "POST", body: form });
  runs.add((await response.json()).url);
  look();
}

async function showOutcome(url) {
  const { body } = await send(url);
  if (body.state === "open") return;
  runs.delete(url);
  say("agent", [paragraph(body.text), paragraph(body.outcome, "result")]);
}

// --- The conversation ------------------------------------------------------------------------

function element(name, attributes = {}, children = []) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "text") made.textContent = value;
    else if (value !== null) made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

function paragraph(text, className = null) {
  return element("p", { text, class: className });
}

function say(who, children) {
  const bubble = element("li", { class: `bubble ${who}` }, [
    element("span", { class: "who", text: who === "you" ? "You" : "Agent" }),
    ...children,
  ]);
  log.append(bubble);
  bubble.scrollIntoView({ block: "nearest" });
  return bubble;
}

async function showQuestion(id) {
  const { status: found, body } = await send(`${questions}${id}/`);
  if (found !== 200) return;
  const from = element("p", { class: "from" }, [
    "An external server asks: ",
    element("bdi", { text: body.server.label }),
  ]);
  const message = element("p", { class: "untrusted", text: body.message, dir: "auto" });
  shown.set(id, say("agent", [from, message, form(body)]));
}

/** Close what was answered elsewhere, or is over. */
async function closeOthers(waiting) {
  for (const [id, bubble] of shown) {
    if (waiting.has(id) || !bubble.querySelector("form")) continue;
    const { status: found, body } = await send(`${questions}${id}/`);
    if (found === 200 && body.state !== "pending") close(bubble, body.state);
  }
}

const ENDS = {
  answered: "You answered. The call goes on.",
  declined: "You declined. The server receives a decline.",
  expired: "The time to answer is over.",
  withdrawn: "The request was withdrawn.",
};

function close(bubble, state) {
  bubble.querySelector("form").replaceWith(paragraph(ENDS[state], "ended"));
}

// --- A request -------------------------------------------------------------------------------

/** A request to open a link: the site's own page shows the whole link. */
function address(elicitation) {
  const host = elicitation.url?.host ?? "a site that is not shown";
  const made = element("form", {}, [
    element("p", {}, ["The server wants you to open a link to ", element("bdi", { text: host }), "."]),
    element("p", { class: "error", role: "alert", "data-summary": "" }),
    element("p", { class: "actions" }, [
      element("a", {
        class: "button",
        href: `${pages}${elicitation.id}/`,
        target: "_blank",
        text: "Look at the link",
      }),
      element("button", { type: "button", class: "quiet", text: "Decline", "data-decline": "" }),
    ]),
  ]);
  made.querySelector("[data-decline]").addEventListener("click", () => {
    record(elicitation, made, [], "decline", {});
  });
  return made;
}

function form(elicitation) {
  if (elicitation.kind === "url") return address(elicitation);
  const deadline = new Date(elicitation.deadline);
  const fields = elicitation.questions.map((question, index) =>
    field(question, `q-${elicitation.id}-${index}`),
  );
  const made = element("form", {}, [
    ...fields.map(({ block }) => block),
    element("p", { class: "error", role: "alert", "data-summary": "" }),
    element("p", { class: "actions" }, [
      element("button", { text: fields.length ? "Send the answer" : "Accept" }),
      element("button", { type: "button", class: "quiet", text: "Decline", "data-decline": "" }),
    ]),
    element("p", { class: "hint" }, [
      "The server gets the answer, and the agent may see it. Never write a password, a key or a " +
        `card number. Until ${deadline.toLocaleString()}.`,
    ]),
  ]);
  made.addEventListener("submit", (event) => {
    event.preventDefault();
    const answers = Object.fromEntries(fields.map(({ name, read }) => [name, read()]));
    record(elicitation, made, fields, "answer", {
      answers,
      fingerprint: elicitation.fingerprint,
    });
  });
  made.querySelector("[data-decline]").addEventListener("click", () => {
    record(elicitation, made, fields, "decline", {});
  });
  return made;
}

async function record(elicitation, made, fields, action, body) {
  const summary = made.querySelector("[data-summary]");
  summary.textContent = "";
  for (const { error } of fields) error.textContent = "";
  try {
    const sent = await send(`${questions}${elicitation.id}/${action}/`, body);
    if (sent.status === 200) {
      close(shown.get(elicitation.id), sent.body.state);
      look();
      return;
    }
    const wrong = fields.filter(({ name }) => Object.hasOwn(sent.body.errors, name));
    for (const { name, error } of wrong) error.textContent = sent.body.errors[name].message;
    summary.textContent = sent.body.detail;
    wrong[0]?.first.focus();
    if ([409, 410].includes(sent.status)) look();
  } catch {
    summary.textContent = "The site does not answer. Nothing was sent; try again.";
  }
}

/** One question: its block, and how its answer is read, in the API's form of an answer. */
function field(question, id) {
  const error = element("p", { class: "error", id: `${id}-error` });
  const about = `${id}-about ${id}-error`;
  const optional = question.required ? "" : " (optional)";
  const label = element("span", { class: "untrusted", text: question.label, dir: "auto" });
  const said = element("p", { class: "hint", id: `${id}-about` }, [
    element("span", { class: "untrusted", text: question.description, dir: "auto" }),
    ` ${bounds(question)}`,
  ]);
  const inputs = question.kind === "text" ? [text(question, id)] : options(question, id);
  const block =
    question.kind === "text"
      ? element("div", { class: "field" }, [
          element("label", { for: id }, [label, optional]),
          said,
          inputs[0],
          error,
        ])
      : element("fieldset", { class: "field", "aria-describedby": about }, [
          element("legend", {}, [label, optional]),
          said,
          ...inputs.map((input, index) => choice(input, question.options[index].label)),
          error,
        ]);
  if (question.kind === "text") inputs[0].setAttribute("aria-describedby", about);
  return { name: question.id, block, error, first: inputs[0], read: () => read(question, inputs) };
}

function text(question, id) {
  const numeric = ["integer", "number"].includes(question.type);
  const input = element("input", { id, type: "text", inputmode: numeric ? "decimal" : null });
  input.value = question.default?.other_text ?? "";
  return input;
}

function options(question, id) {
  return question.options.map(({ label }, index) => {
    const type = question.multi_select ? "checkbox" : "radio";
    const input = element("input", { id: `${id}-${index}`, type, name: id, value: index });
    input.checked = question.default?.selected.includes(label) ?? false;
    return input;
  });
}

function choice(input, label) {
  return element("p", { class: "choice" }, [
    input,
    element("label", { for: input.id, class: "untrusted", text: label, dir: "auto" }),
  ]);
}

function read(question, inputs) {
  const typed = inputs[0].value;
  const selected = question.options
    .filter((_option, index) => inputs[index].checked)
    .map(({ label }) => label);
  const blank = question.kind === "text" ? !typed.trim() : selected.length === 0;
  if (blank && !question.required) return { skipped: true };
  return question.kind === "text" ? { other_text: typed } : { selected };
}

const BOUNDS = {
  format: (value) => `format: ${value}`,
  min_length: (value) => `at least ${value} characters`,
  max_length: (value) => `at most ${value} characters`,
  minimum: (value) => `at least ${value}`,
  maximum: (value) => `at most ${value}`,
  exclusive_minimum: (value) => `more than ${value}`,
  exclusive_maximum: (value) => `less than ${value}`,
  multiple_of: (value) => `a multiple of ${value}`,
  min_items: (value) => `choose at least ${value}`,
  max_items: (value) => `choose at most ${value}`,
};

function bounds(question) {
  const kinds = { integer: ["a whole number"], number: ["a number"] };
  const said = Object.entries(question.bounds).map(([name, value]) => BOUNDS[name](value));
  const all = [...(kinds[question.type] ?? []), ...said].join(", ");
  return all && `(${all})`;
}

// --- Start -----------------------------------------------------------------------------------

for (const button of main.querySelectorAll("[data-tool]")) {
  button.addEventListener("click", () => start(button.dataset.tool));
}
document.addEventListener("visibilitychange", () => {
  if (document.hidden) window.clearTimeout(timer);
  else look();
});
look();
