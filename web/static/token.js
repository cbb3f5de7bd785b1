// Asks for the access token. It is shown only after the server has said 401.

import { setToken } from './api.js';

/** askToken resolves when the person has given a token. */
export function askToken(dialog) {
  return new Promise((resolve) => {
    const form = dialog.querySelector('form');
    const input = dialog.querySelector('input');
    const submit = (event) => {
      event.preventDefault();
      setToken(input.value);
      input.value = '';
      form.removeEventListener('submit', submit);
      dialog.close();
      resolve();
    };
    form.addEventListener('submit', submit);
    if (!dialog.open) dialog.showModal();
  });
}
