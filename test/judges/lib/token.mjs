// The token of the servers under judgement, as the command line finds it: in the file that
// AQUEDUCT_TOKEN_FILE names.

import { readFileSync } from 'node:fs';

const file = process.env.AQUEDUCT_TOKEN_FILE;
if (!file) throw new Error('AQUEDUCT_TOKEN_FILE must name the file of the token (test/program does it)');

export const token = readFileSync(file, 'utf8').trim();

/** authorization are the headers by which a client shows the token. */
export const authorization = { Authorization: `Bearer ${token}` };

/** fetch is the platform's, with the token. */
export function fetch(url, init = {}) {
  const headers = new Headers(init.headers);
  if (!headers.has('authorization')) headers.set('authorization', authorization.Authorization);
  return globalThis.fetch(url, { ...init, headers });
}
