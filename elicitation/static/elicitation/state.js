/* Looks for news on the page of a question that was answered, and leads on to the next one.
   Where there is no JavaScript the page loads itself again. */
"use strict";

(() => {
  const giveUp = Date.now() + 2 * 60 * 1000;

  function leadOn(state) {
    const next = state.dataset.elicitationNext;
    if (!next) return false;
    // Replaced, so that "Back" does not lead to a page that leads on at once.
    window.location.replace(next);
    return true;
  }

  async function look() {
    const state = document.getElementById("elicitation-state");
    if (!state || !("elicitationRefresh" in state.dataset) || leadOn(state)) return;
    if (!document.hidden) {
      try {
        const response = await fetch(window.location.href, { redirect: "error" });
        if (!response.ok) return;
        const page = new DOMParser().parseFromString(await response.text(), "text/html");
        const news = page.getElementById("elicitation-state");
        if (!news) return;
        // An unchanged text is left alone, or it would be read out again each time.
        if (news.textContent.trim() !== state.textContent.trim()) {
          const focused = state.contains(document.activeElement) ? document.activeElement.id : "";
          state.replaceWith(news);
          document.title = page.title;
          if (focused) document.getElementById(focused)?.focus();
        }
        if (leadOn(news)) return;
        if (!("elicitationRefresh" in news.dataset)) return;
      } catch {
        // Offline, or signed out: looked at again later, until it is given up.
      }
    }
    if (Date.now() < giveUp) window.setTimeout(look, 2500);
  }

  const state = document.getElementById("elicitation-state");
  if (state) window.setTimeout(look, state.dataset.elicitationNext ? 600 : 1500);
})();
