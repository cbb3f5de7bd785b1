// JSON Patch (RFC 6902) on plain values. A patch never changes its input: the page keeps
// old versions for comparing, and a patch that fails half-way must leave nothing behind.

/** applyPatch returns doc with all operations applied, or throws and changes nothing. */
export function applyPatch(doc, operations) {
  return operations.reduce(applyOne, doc);
}

function applyOne(doc, op) {
  const path = parsePointer(op.path);
  if (['add', 'replace', 'test'].includes(op.op) && op.value === undefined) throw new Error(`${op.op} without a value`);
  switch (op.op) {
    case 'add':
      return put(doc, path, op.value, insert);
    case 'replace':
      read(doc, path);
      return put(doc, path, op.value, overwrite);
    case 'remove':
      read(doc, path);
      return drop(doc, path);
    case 'copy':
      return put(doc, path, read(doc, parsePointer(op.from)), insert);
    case 'move': {
      const from = parsePointer(op.from);
      if (from.length < path.length && from.every((key, i) => key === path[i])) {
        throw new Error(`a value cannot move into itself: ${op.path}`);
      }
      return put(drop(doc, from), path, read(doc, from), insert);
    }
    case 'test':
      if (!equal(read(doc, path), op.value)) throw new Error(`test failed at ${op.path}`);
      return doc;
    default:
      throw new Error(`unknown operation ${op.op}`);
  }
}

// parsePointer splits a JSON Pointer (RFC 6901); ~1 is decoded before ~0.
function parsePointer(pointer) {
  if (pointer === '') return [];
  if (typeof pointer !== 'string' || pointer[0] !== '/') throw new Error(`not a JSON Pointer: ${pointer}`);
  return pointer.slice(1).split('/').map((key) => key.replaceAll('~1', '/').replaceAll('~0', '~'));
}

function read(doc, path) {
  let here = doc;
  for (const key of path) {
    if (!has(here, key)) throw new Error(`nothing at /${path.join('/')}`);
    here = here[key];
  }
  return here;
}

function has(node, key) {
  if (Array.isArray(node)) return index(key) < node.length;
  return node !== null && typeof node === 'object' && Object.hasOwn(node, key);
}

// index is NaN, and so smaller than nothing, for what is not an array index.
function index(key) {
  return /^(0|[1-9][0-9]*)$/.test(key) ? Number(key) : NaN;
}

// put copies the way down to path and lets write set the last step.
function put(node, path, value, write) {
  if (path.length === 0) return value;
  const [key, ...rest] = path;
  if (node === null || typeof node !== 'object') throw new Error(`no parent for ${key}`);
  const copy = Array.isArray(node) ? [...node] : { ...node };
  if (rest.length === 0) {
    write(copy, key, value);
    return copy;
  }
  if (!has(node, key)) throw new Error(`no parent at ${key}`);
  set(copy, key, put(node[key], rest, value, write));
  return copy;
}

function insert(node, key, value) {
  if (!Array.isArray(node)) return set(node, key, value);
  const at = key === '-' ? node.length : index(key);
  if (!(at <= node.length)) throw new Error(`no index ${key} in an array of ${node.length}`);
  node.splice(at, 0, value);
}

function overwrite(node, key, value) {
  set(node, key, value);
}

// set defines the member itself: a plain assignment to __proto__ would not.
function set(node, key, value) {
  Object.defineProperty(node, key, { value, writable: true, enumerable: true, configurable: true });
}

function drop(node, path) {
  if (path.length === 0) return undefined;
  const [key, ...rest] = path;
  const copy = Array.isArray(node) ? [...node] : { ...node };
  if (rest.length > 0) set(copy, key, drop(node[key], rest));
  else if (Array.isArray(copy)) copy.splice(index(key), 1);
  else delete copy[key];
  return copy;
}

function equal(a, b) {
  if (a === b) return true;
  if (a === null || b === null || typeof a !== 'object' || typeof b !== 'object') return false;
  if (Array.isArray(a) !== Array.isArray(b)) return false;
  const keys = Object.keys(a);
  return keys.length === Object.keys(b).length && keys.every((key) => Object.hasOwn(b, key) && equal(a[key], b[key]));
}
