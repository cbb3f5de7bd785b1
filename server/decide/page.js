"use strict";
const nonce = document.querySelector("main").dataset.page;
const said = document.getElementById("said");
const buttons = document.querySelectorAll("button[data-option]");
async function decide(option) {
  for (const b of buttons) b.disabled = true;
  said.textContent = "…";
  let again = true;
  try {
    const answer = await fetch(location.pathname, {
      method: "POST", headers: {"content-type": "application/json"}, credentials: "same-origin", redirect: "error",
      body: JSON.stringify({page: nonce, option_id: option}),
    });
    const got = await answer.json();
    again = answer.status >= 500;
    said.textContent = (answer.ok ? got.title + ". " : "") + (got.detail || "");
  } catch {
    said.textContent = "The server could not be reached. Try again.";
  }
  for (const b of buttons) { b.disabled = false; b.hidden = !again; }
}
for (const b of buttons) b.addEventListener("click", (click) => { if (click.isTrusted) decide(b.dataset.option); });
