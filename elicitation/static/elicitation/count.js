/* Keeps the numbers of `{% elicitation_count %}` up to date. It pauses in a hidden tab, asks less
   often while the site does not answer, and stops once the person is signed out. */
"use strict";

(() => {
  const EVERY = 30 * 1000;
  const AT_MOST = 10 * 60 * 1000;

  const places = [...document.querySelectorAll("[data-elicitation-count]")];
  if (places.length === 0) return;
  const address = new URL(places[0].dataset.elicitationCount, window.location.href);
  if (address.origin !== window.location.origin) return;

  let pause = EVERY;
  let timer = null;
  let stopped = false;

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
      const { count } = await response.json();
      for (const place of places) {
        if (place.textContent !== String(count)) place.textContent = String(count);
      }
      pause = EVERY;
    } catch {
      pause = Math.min(pause * 2, AT_MOST);
    } finally {
      plan();
    }
  }

  document.addEventListener("visibilitychange", () => {
    if (document.hidden) plan();
    else if (!stopped) ask();
  });
  plan();
})();
