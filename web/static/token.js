// Asks for the access token. It is shown only after the server has said 401.

import { secretKey, signIn } from './api.js';
import { offerSignIn, takeBegun } from './signin.js';

let asking = null; // two requests may be refused at once; one question is enough

// What the address may end with: the code of a link that serve printed, or the ticket of a sign-in at a provider.
const credentials = { '#sign-in=': 'code', '#signed-in=': 'ticket' };

const prefixOf = (hash) => Object.keys(credentials).find((prefix) => hash.startsWith(prefix));

/** hasSignInLink reports whether the page was opened to sign in. */
export function hasSignInLink() {
  return prefixOf(location.hash) !== undefined;
}

/**
 * signInByLink signs in with the code or ticket in the address. It leaves the address, and with it the browser's history, before
 * it is sent: what goes wrong afterwards must not leave it there.
 */
export async function signInByLink(dialog) {
  const prefix = prefixOf(location.hash);
  const value = location.hash.slice(prefix.length);
  history.replaceState(null, '', location.pathname + location.search);
  try {
    if (credentials[prefix] === 'ticket' && !takeBegun()) throw new Error('The sign-in was not begun on this page. Please sign in here.');
    await signIn({ [credentials[prefix]]: value });
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

/** askToken resolves to true when this tab or another one has signed in, and to false when the person closed the dialog. */
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
    const over = new AbortController();
    const end = (signedIn) => {
      over.abort();
      input.value = '';
      problem.hidden = true;
      dialog.close();
      resolve(signedIn);
    };
    form.addEventListener('submit', async (event) => {
      event.preventDefault();
      try {
        await signIn({ token: input.value });
      } catch (error) {
        show(problem, error.message);
        return;
      }
      end(true);
    }, { signal: over.signal });
    window.addEventListener('storage', ({ key, newValue }) => key === secretKey && newValue && end(true), { signal: over.signal });
    dialog.addEventListener('close', () => end(false), { signal: over.signal });
  });
}
