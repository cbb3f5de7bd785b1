// Asks for the access token. It is shown only after the server has said 401.

import { signIn } from './api.js';

let asking = null; // two requests may be refused at once; one question is enough

/** askToken resolves when the server has taken a token. */
export function askToken(dialog) {
  asking ??= ask(dialog).finally(() => { asking = null; });
  return asking;
}

function ask(dialog) {
  const form = dialog.querySelector('form');
  const input = dialog.querySelector('input');
  const problem = dialog.querySelector('.problem');
  dialog.showModal();
  return new Promise((resolve) => {
    const submit = async (event) => {
      event.preventDefault();
      try {
        await signIn(input.value);
      } catch (error) {
        problem.textContent = error.message;
        problem.hidden = false;
        return;
      }
      form.removeEventListener('submit', submit);
      input.value = '';
      problem.hidden = true;
      dialog.close();
      resolve();
    };
    form.addEventListener('submit', submit);
  });
}
