/* Keeps what is typed into a form in `sessionStorage`, by person, request and fingerprint, until it
   was sent: the tab can be left, reloaded or crash. No text that looks like a credential is kept,
   and no text at all where the request speaks of one. The site's server receives nothing of it.

   A draft is marked when its form is sent. It is deleted on the next page of the same person, unless
   that page shows the form again or says that nothing was stored. */
"use strict";

(() => {
  const PREFIX = "elicitation:";
  const page = document.documentElement;
  const forms = [...document.querySelectorAll("[data-elicitation-draft]")];
  const ofScript = document.currentScript?.dataset.elicitationPerson;
  const person = ofScript || forms[0]?.dataset.elicitationDraft.split(":")[0];

  let storage;
  try {
    storage = window.sessionStorage;
    storage.length;
  } catch {
    return; // The browser keeps nothing for this site.
  }

  const keys = () => Object.keys(storage).filter((key) => key.startsWith(PREFIX));
  const forget = (key) => storage.removeItem(key);

  function load(key) {
    try {
      return JSON.parse(storage.getItem(key));
    } catch {
      return null;
    }
  }

  function save(key, draft) {
    try {
      storage.setItem(key, JSON.stringify(draft));
    } catch {
      // Full: what was kept before stays.
    }
  }

  // --- What a form holds -----------------------------------------------------------------------

  const controls = (form) =>
    [...form.elements].filter(
      ({ name, type }) => /^a-\d/.test(name) && !["hidden", "password", "file"].includes(type),
    );
  const isChosen = (control) => ["radio", "checkbox"].includes(control.type);
  const isText = (control) =>
    !isChosen(control) &&
    control.tagName !== "SELECT" &&
    !["date", "datetime-local"].includes(control.type);
  const titleOf = (control) =>
    control.closest(".elicitation-field")?.querySelector(".elicitation-label .elicitation-said")
      ?.textContent ?? control.name;

  function mayKeep(form, text) {
    if ("elicitationSecret" in form.dataset) return text === "";
    // Accents and invisible characters do not hide a credential.
    const plain = text.normalize("NFKD").replace(/[^\x00-\x7f]/g, "");
    return !new RegExp(form.dataset.elicitationCredentials).test(plain);
  }

  /** Return the values by name, and in words for who copies them. */
  function read(form) {
    const values = {};
    const words = {};
    for (const control of controls(form)) {
      if (isText(control) && !mayKeep(form, control.value)) continue;
      const kept = (values[control.name] ??= []);
      let said = control.value;
      if (isChosen(control)) {
        if (!control.checked) continue;
        const label = control.closest("label");
        said = (label?.querySelector(".elicitation-said") ?? label)?.textContent ?? said;
      } else if (control.tagName === "SELECT") {
        said = control.value && control.selectedOptions[0].text;
      }
      kept.push(control.value);
      if (!said) continue;
      const [question] = control.name.split("_");
      words[question] ??= { title: titleOf(control), said: [] };
      words[question].said.push(said);
    }
    return { values, words };
  }

  function fillIn(form, values) {
    const changed = new Set();
    for (const control of controls(form)) {
      // One line would drop the others.
      if (control.type === "text" && values[control.name]?.[0]?.includes("\n")) {
        const enlarge = new Event("elicitation:enlarge", { bubbles: true });
        control.dispatchEvent(enlarge);
      }
    }
    for (const control of controls(form)) {
      const kept = values[control.name];
      if (!kept) continue;
      if (isChosen(control)) {
        const wanted = kept.includes(control.value);
        if (control.checked !== wanted) changed.add(titleOf(control));
        control.checked = wanted;
      } else if (kept.length && control.value !== kept[0]) {
        changed.add(titleOf(control));
        control.value = kept[0];
      }
    }
    return [...changed];
  }

  // --- What the person sees --------------------------------------------------------------------

  function said(tag, ...lines) {
    const element = document.createElement(tag);
    for (const text of lines) {
      const block = element.appendChild(document.createElement("span"));
      block.className = "elicitation-said";
      block.dir = "auto";
      block.textContent = text;
    }
    return element;
  }

  function show(notice, draft, list, discard) {
    const time = document.createElement("time");
    const at = new Date(draft.at);
    time.dateTime = at.toISOString();
    time.textContent = at.toLocaleString(page.lang, { dateStyle: "medium", timeStyle: "short" });
    const button = document.createElement("button");
    button.type = "button";
    button.className = "elicitation-button";
    button.textContent = notice.dataset.discard;
    button.addEventListener("click", () => {
      discard();
      notice.hidden = true;
    });
    notice.querySelector("p:last-child").append(" ", time);
    notice.lastElementChild.append(list, button);
    notice.role = "status";
    notice.hidden = false;
  }

  function restore(form) {
    const key = PREFIX + form.dataset.elicitationDraft;
    const draft = load(key);
    const notice = form.parentElement.querySelector("[data-elicitation-kept]");
    if (draft) {
      const titles = fillIn(form, draft.values);
      if (titles.length) form.dispatchEvent(new Event("elicitation:restored"));
      if (titles.length && notice) {
        const list = document.createElement("ul");
        list.append(...titles.map((title) => said("li", title)));
        show(notice, draft, list, () => {
          forget(key);
          form.reset();
        });
      }
    }
    const keep = () => save(key, { at: Date.now(), ...read(form) });
    form.addEventListener("input", keep);
    form.addEventListener("change", keep);
  }

  /** Offer what was typed into a request that is closed. */
  function offer(notice) {
    const [of, id] = notice.dataset.elicitationKept.split(":");
    const found = keys().filter((key) => key.startsWith(`${PREFIX}${of}:${id}:`));
    const draft = load(found[0]);
    const words = Object.values(draft?.words ?? {});
    if (!words.length) return;
    const list = document.createElement("dl");
    list.className = "elicitation-details";
    for (const { title, said: lines } of words) {
      list.append(said("dt", title), said("dd", ...lines));
    }
    show(notice, draft, list, () => found.forEach(forget));
  }

  // --- When it is deleted ----------------------------------------------------------------------

  const shown = new Set(forms.map((form) => PREFIX + form.dataset.elicitationDraft));
  const isRefused = document.querySelector("[data-elicitation-refused]") !== null;
  for (const key of keys()) {
    const draft = load(key);
    if (!draft || (person && !key.startsWith(`${PREFIX}${person}:`))) forget(key);
    else if (draft.sent && person && !isRefused && !shown.has(key)) forget(key);
    else if (draft.sent && (isRefused || shown.has(key))) save(key, { ...draft, sent: false });
  }

  document.addEventListener("submit", ({ target: { dataset } }) => {
    if ("elicitationSignOut" in dataset) keys().forEach(forget);
    const key = PREFIX + (dataset.elicitationDraft ?? dataset.elicitationEnds);
    const draft = load(key);
    if (draft) save(key, { ...draft, sent: true });
  });

  forms.forEach(restore);
  for (const notice of document.querySelectorAll("[data-elicitation-kept]")) {
    if (!shown.has(PREFIX + notice.dataset.elicitationKept)) offer(notice);
  }
})();
