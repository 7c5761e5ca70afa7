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

  document.querySelectorAll("[data-elicitation-deadline]").forEach(watchDeadline);
  document.querySelectorAll("[data-elicitation-moment]").forEach(makeMoment);
})();
