/* Keeps the numbers of `{% elicitation_count %}` up to date: at once where the site sends events
   (ASGI), else every half a minute. It pauses in a hidden tab, asks less often while the site does
   not answer, and stops once the person is signed out. For other scripts of the page each change
   is a `elicitation:changed` event of the document, with the id and the state in its `detail`. */
"use strict";

(() => {
  const EVERY = 30 * 1000;
  const AT_MOST = 10 * 60 * 1000;

  const places = [...document.querySelectorAll("[data-elicitation-count]")];
  if (places.length === 0) return;
  const address = new URL(places[0].dataset.elicitationCount, window.location.href);
  const events = new URL(places[0].dataset.elicitationEvents, window.location.href);
  if (address.origin !== window.location.origin) return;
  if (events.origin !== window.location.origin) return;

  let pause = EVERY;
  let timer = null;
  let stopped = false;
  let source = null;
  let sendsEvents = true;
  let waiting = new Set();

  function show(count) {
    for (const place of places) {
      if (place.textContent !== String(count)) place.textContent = String(count);
    }
  }

  // --- Where the site sends events -----------------------------------------------------------

  function listen() {
    source = new EventSource(events);
    source.addEventListener("waiting", (event) => {
      waiting = new Set(JSON.parse(event.data).waiting);
      show(waiting.size);
    });
    source.addEventListener("elicitation", (event) => {
      const detail = JSON.parse(event.data);
      if (detail.state === "pending") waiting.add(detail.id);
      else waiting.delete(detail.id);
      show(waiting.size);
      document.dispatchEvent(new CustomEvent("elicitation:changed", { detail }));
    });
    source.addEventListener("error", () => {
      // Otherwise the browser connects again by itself.
      if (source?.readyState !== EventSource.CLOSED) return;
      source = null;
      sendsEvents = false;
      ask();
    });
  }

  // --- Where it does not ---------------------------------------------------------------------

  function plan() {
    window.clearTimeout(timer);
    timer = stopped || document.hidden ? null : window.setTimeout(ask, pause);
  }

  async function ask() {
    try {
      const response = await fetch(address, {
        headers: { Accept: "application/json" },
      });
      if (response.status === 401) {
        stopped = true;
        return;
      }
      if (!response.ok) throw new Error(String(response.status));
      show((await response.json()).count);
      pause = EVERY;
    } catch {
      pause = Math.min(pause * 2, AT_MOST);
    } finally {
      plan();
    }
  }

  // A hidden tab holds no connection: browsers allow six to a site over HTTP/1.1.
  function begin() {
    if (document.hidden) {
      source?.close();
      source = null;
      window.clearTimeout(timer);
    } else if (!stopped) {
      if (!sendsEvents) ask();
      else if (!source) listen();
    }
  }

  document.addEventListener("visibilitychange", begin);
  begin();
})();
