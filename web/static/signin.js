// Signing in at an OpenID provider: the server sends the browser there and takes it back.

import { signOut, whoAmI } from './api.js';

const problemPrefix = '#signin=';

const sentences = {
  signin_denied: 'You were not signed in.',
  signin_expired: 'The sign-in took too long, or was begun elsewhere. Please try again.',
  signin_not_mapped: 'You are signed in at the provider, but have no place here. Ask whoever runs this server.',
  issuer_unavailable: 'The sign-in service does not answer. Please try again later.',
};

/** takeSignInProblem gives what went wrong with a sign-in, and takes it out of the address. */
export function takeSignInProblem() {
  if (!location.hash.startsWith(problemPrefix)) return '';
  const code = location.hash.slice(problemPrefix.length);
  history.replaceState(null, '', location.pathname + location.search);
  return sentences[code] ?? 'The sign-in failed.';
}

// Set while a person who began at this page is at the provider. Another port of this host can send the browser back with the
// session of another user, and cannot set it.
const begunKey = 'aqueduct_signin';

/** takeBegun reports whether this page began a sign-in at a provider, once. */
export function takeBegun() {
  const begun = localStorage.getItem(begunKey) !== null;
  localStorage.removeItem(begunKey);
  return begun;
}

/** offerSignIn shows the way to the provider, where the server has one. */
export async function offerSignIn(link) {
  try {
    const { login } = await whoAmI();
    link.hidden = !login;
    if (!login) return;
    link.href = login;
    link.onclick = () => localStorage.setItem(begunKey, login);
  } catch {
    link.hidden = true; // the token can still be given
  }
}

/** showWho shows who is signed in at a provider, and the way out. */
export async function showWho(name, out) {
  let who;
  try {
    who = await whoAmI();
  } catch {
    return; // the page works without
  }
  const shown = Boolean(who.signedIn && who.logout);
  name.hidden = out.hidden = !shown;
  if (!shown) return;
  name.textContent = who.user;
  name.title = `${who.tenant}: ${(who.roles ?? []).join(', ')}`;
  out.onclick = async () => {
    const redirect = await signOut(who.logout);
    location.assign(redirect || '/');
  };
}
