/* Makes the fields of a form easier to fill in. Without it all of them work. */
"use strict";

(() => {
  const MINUTE = 60 * 1000;
  const DAY = 24 * 60 * MINUTE;
  const page = document.documentElement;

  // --- Dates and times: the browser's zone, and the moment in UTC ------------------------------

  const resolved = (timeZone) => Intl.DateTimeFormat("en", { timeZone }).resolvedOptions().timeZone;

  /** Return how a list of zones calls the browser's; browsers keep names of old. */
  function ownZone(select) {
    const own = Intl.DateTimeFormat().resolvedOptions().timeZone;
    const names = [...select.options].map((option) => option.value);
    if (names.includes(own)) return own;
    const isOwn = (name) => name.includes("/") && resolved(name) === own;
    return names.find(isOwn) ?? "";
  }

  /** Return how far ahead of UTC a zone is at a moment, in milliseconds. */
  function offsetOf(zone, at) {
    const fixed = /^UTC([+-])(\d\d):(\d\d)$/.exec(zone);
    if (fixed) return (fixed[1] === "-" ? -1 : 1) * (fixed[2] * 60 + Number(fixed[3])) * MINUTE;
    const format = Intl.DateTimeFormat("en-US", {
      timeZone: zone, hourCycle: "h23", year: "numeric", month: "numeric", day: "numeric",
      hour: "numeric", minute: "numeric", second: "numeric",
    });
    const part = Object.fromEntries(
      format.formatToParts(at).map(({ type, value }) => [type, Number(value)]),
    );
    const wall = Date.UTC(
      part.year, part.month - 1, part.day, part.hour, part.minute, part.second,
    );
    return wall - Math.floor(at / 1000) * 1000;
  }

  /** Return the moments with this local time: none where clocks go forward, two where back. */
  function momentsOf(local, zone) {
    const wall = Date.parse(`${local}Z`);
    if (Number.isNaN(wall) || !zone) return null;
    const found = [wall - DAY, wall + DAY].map((near) => wall - offsetOf(zone, near));
    return [...new Set(found)].filter((at) => at + offsetOf(zone, at) === wall);
  }

  function say(output, local, zone) {
    const [label, time] = output.children;
    label.dataset.text ??= label.textContent;
    const moments = momentsOf(local, zone);
    output.hidden = moments === null;
    if (moments === null) return;
    const isOne = moments.length === 1;
    const problem = moments.length ? output.dataset.fold : output.dataset.gap;
    label.textContent = isOne ? label.dataset.text : problem;
    time.hidden = !isOne;
    if (!isOne) return;
    const shown = { dateStyle: "medium", timeStyle: "short", timeZone: "UTC" };
    time.dateTime = new Date(moments[0]).toISOString();
    time.textContent = new Date(moments[0]).toLocaleString(page.lang, shown);
  }

  function makeMoment(output) {
    const [local, zone] = output.parentElement.querySelectorAll("input, select");
    output.append(" ", document.createElement("time"));
    const show = () => {
      if (!zone.value) zone.value = ownZone(zone);
      say(output, local.value, zone.value);
    };
    local.addEventListener("input", show);
    zone.addEventListener("change", () => say(output, local.value, zone.value));
    local.form.addEventListener("elicitation:restored", show);
    local.form.addEventListener("reset", () => window.setTimeout(show));
    show();
  }

  // --- The deadline: in the browser's zone, with the time that is left --------------------------

  const UNITS = [["day", DAY], ["hour", 60 * MINUTE], ["minute", MINUTE]];
  const SOON = 10 * MINUTE;

  function watchDeadline(place) {
    const [time, left] = place.children;
    const at = new Date(time.dateTime);
    const soon = place.parentElement.querySelector("[data-elicitation-soon]");
    const relative = new Intl.RelativeTimeFormat(page.lang);
    time.textContent = at.toLocaleString(page.lang, {
      year: "numeric", month: "short", day: "numeric", hour: "numeric", minute: "numeric",
      timeZoneName: "short",
    });
    const show = () => {
      const rest = at - Date.now();
      const [unit, length] = UNITS.find(([, each]) => rest >= each) ?? ["second", 1000];
      left.textContent = `(${relative.format(Math.max(0, Math.floor(rest / length)), unit)})`;
      if (soon) soon.hidden = rest >= SOON;
      if (rest > 0) window.setTimeout(show, rest < 2 * MINUTE ? 1000 : MINUTE / 2);
    };
    show();
  }

  // --- Texts, and lists of options ----------------------------------------------------------------

  /** Call `show` whenever what stands in a form may have changed. */
  function follow(form, show) {
    form.addEventListener("input", show);
    form.addEventListener("elicitation:restored", show);
    form.addEventListener("reset", () => window.setTimeout(show));
    show();
  }

  const fill = (text, values) => text.replace(/\{(\w+)\}/g, (_all, name) => values[name]);

  /** Count characters as the server does, near a bound. */
  function countLength(output) {
    const { max, min = 0, text } = output.dataset;
    const field = output.closest(".elicitation-field");
    follow(field.closest("form"), () => {
      const { value } = field.querySelector("input, textarea");
      const count = [...value.replace(/\r\n/g, "\n")].length;
      output.hidden = !(count && (count < min || count > max * 0.8));
      output.textContent = fill(text, { count: max ? `${count} / ${max}` : count });
    });
  }

  function countChosen(output) {
    const field = output.closest(".elicitation-field");
    follow(field.closest("form"), () => {
      const chosen = field.querySelectorAll(":checked").length;
      output.hidden = !chosen;
      output.textContent = fill(output.dataset.text, { chosen, of: output.dataset.of });
    });
  }

  /** Put a text area in the place of an input, with everything that belongs to it. */
  function enlarge(field) {
    const line = field.querySelector("input");
    const area = document.createElement("textarea");
    for (const { name, value } of line.attributes) {
      if (!["type", "value"].includes(name)) area.setAttribute(name, value);
    }
    area.rows = 4;
    area.value = line.value;
    line.replaceWith(area);
    field.querySelector("[data-elicitation-more]")?.remove();
    return area;
  }

  function offerToEnlarge(field) {
    if (!field.querySelector("input")) return;
    const button = document.createElement("button");
    button.type = "button";
    button.className = "elicitation-more";
    button.dataset.elicitationMore = "";
    button.textContent = field.dataset.elicitationEnlarge;
    button.addEventListener("click", () => enlarge(field).focus());
    field.append(button);
    field.addEventListener("elicitation:enlarge", () => enlarge(field));
  }

  const matches = (text, wanted) =>
    text.toLocaleLowerCase().normalize("NFD").includes(wanted.toLocaleLowerCase().normalize("NFD"));

  /** Leave in a select what matches, and what is chosen. */
  function narrow(select, all, wanted) {
    const { value } = select;
    const kept = (option) =>
      !wanted || option.value === value || !option.value ||
      matches(`${option.text} ${option.parentElement.label ?? ""}`, wanted);
    const found = [...all.children].map((child) => {
      const copy = child.cloneNode(child.tagName === "OPTION");
      if (child.tagName === "OPTGROUP") {
        copy.append(...[...child.children].filter(kept).map((each) => each.cloneNode(true)));
        return copy.children.length ? copy : null;
      }
      return kept(child) ? copy : null;
    });
    select.replaceChildren(...found.filter(Boolean));
    select.value = value;
    select.size = wanted ? Math.min(6, Math.max(2, select.length)) : 0;
  }

  function makeSearch(place) {
    const field = place.closest(".elicitation-field");
    const select = field.querySelector("select");
    const all = select?.cloneNode(true);
    const label = place.appendChild(document.createElement("label"));
    const box = document.createElement("input");
    box.type = "search";
    label.append(place.dataset.elicitationSearch, box);
    box.addEventListener("input", (event) => {
      event.stopPropagation(); // What is searched for is no answer.
      if (select) narrow(select, all, box.value);
      for (const option of field.querySelectorAll(".elicitation-option")) {
        option.hidden = !option.querySelector(":checked") && !matches(option.innerText, box.value);
      }
    });
    box.addEventListener("keydown", (event) => {
      if (event.key !== "Enter") return;
      event.preventDefault();
      (select ?? field.querySelector(".elicitation-option:not([hidden]) input"))?.focus();
    });
    place.hidden = false;
  }

  document.querySelectorAll("[data-elicitation-enlarge]").forEach(offerToEnlarge);
  document.querySelectorAll("[data-elicitation-length]").forEach(countLength);
  document.querySelectorAll("[data-elicitation-chosen]").forEach(countChosen);
  document.querySelectorAll("[data-elicitation-search]").forEach(makeSearch);
  document.querySelectorAll("[data-elicitation-deadline]").forEach(watchDeadline);
  document.querySelectorAll("[data-elicitation-moment]").forEach(makeMoment);
})();
