// Applies the patches of a file, one {"doc","patch"} a line, and prints one line for each: what the library of the official
// clients makes of it, called as they call it, and what the page makes of it. A patch that was refused has an error.

import { createReadStream } from 'node:fs';
import { createInterface } from 'node:readline';

import jsonpatch from 'fast-json-patch';

import { applyPatch } from '../../../web/static/patch.js';

function outcome(apply) {
  try {
    const doc = apply();
    return doc === undefined ? { error: 'nothing is left' } : { doc: JSON.parse(JSON.stringify(doc)) }; // the library can close a circle
  } catch (err) {
    return { error: String(err.message).slice(0, 200) };
  }
}

for await (const line of createInterface({ input: createReadStream(process.argv[2]) })) {
  const read = () => JSON.parse(line);
  const client = outcome(() => {
    const { doc, patch } = read();
    return jsonpatch.applyPatch(doc, patch, true, false).newDocument;
  });
  const page = outcome(() => {
    const { doc, patch } = read();
    return applyPatch(doc, patch);
  });
  process.stdout.write(`${JSON.stringify({ client, page })}\n`);
}
