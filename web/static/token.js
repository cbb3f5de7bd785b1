// Asks for the access token. It is shown only after the server has said 401.

import { signIn, signInByCode } from './api.js';
import { offerSignIn } from './signin.js';

let asking = null; // two requests may be refused at once; one question is enough

const linkPrefix = '#sign-in=';

/** hasSignInLink reports whether the page was opened by a link that serve printed. */
export function hasSignInLink() {
  return location.hash.startsWith(linkPrefix);
}

/**
 * signInByLink signs in with the code in the address. The code leaves the address, and with it
 * the browser's history, before it is sent: what goes wrong afterwards must not leave it there.
 */
export async function signInByLink(dialog) {
  const code = location.hash.slice(linkPrefix.length);
  history.replaceState(null, '', location.pathname + location.search);
  try {
    await signInByCode(code);
  } catch (error) {
    show(dialog.querySelector('.problem'), error.message);
    await askToken(dialog);
  }
}

function show(problem, text) {
  problem.textContent = text;
  problem.hidden = false;
}

/** showProblem puts a sentence into the dialog that asks for the token. */
export function showProblem(dialog, text) {
  show(dialog.querySelector('.problem'), text);
}

/** askToken resolves when the server has taken a token. */
export function askToken(dialog) {
  asking ??= ask(dialog).finally(() => { asking = null; });
  return asking;
}

function ask(dialog) {
  const form = dialog.querySelector('form');
  const input = dialog.querySelector('input');
  const problem = dialog.querySelector('.problem');
  offerSignIn(dialog.querySelector('#signin')).finally(() => dialog.showModal());
  return new Promise((resolve) => {
    const submit = async (event) => {
      event.preventDefault();
      try {
        await signIn(input.value);
      } catch (error) {
        show(problem, error.message);
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
