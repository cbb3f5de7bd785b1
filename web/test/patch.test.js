import assert from 'node:assert/strict';
import { test } from 'node:test';

import { applyPatch } from '../static/patch.js';

const cases = [
  ['add a member', { a: 1 }, [{ op: 'add', path: '/b', value: 2 }], { a: 1, b: 2 }],
  ['add replaces a member', { a: 1 }, [{ op: 'add', path: '/a', value: 2 }], { a: 2 }],
  ['add inserts into an array', { a: [1, 3] }, [{ op: 'add', path: '/a/1', value: 2 }], { a: [1, 2, 3] }],
  ['add at the end by index', [1], [{ op: 'add', path: '/1', value: 2 }], [1, 2]],
  ['add at the end by -', [1], [{ op: 'add', path: '/-', value: 2 }], [1, 2]],
  ['replace the root', { a: 1 }, [{ op: 'replace', path: '', value: [] }], []],
  ['replace deep inside', { a: [{ b: 1 }] }, [{ op: 'replace', path: '/a/0/b', value: null }], { a: [{ b: null }] }],
  ['remove from an object', { a: 1, b: 2 }, [{ op: 'remove', path: '/a' }], { b: 2 }],
  ['remove from an array', [1, 2, 3], [{ op: 'remove', path: '/1' }], [1, 3]],
  ['move', { a: { x: 1 }, b: {} }, [{ op: 'move', from: '/a/x', path: '/b/y' }], { a: {}, b: { y: 1 } }],
  ['copy', { a: [1] }, [{ op: 'copy', from: '/a', path: '/b' }], { a: [1], b: [1] }],
  ['test passes', { a: { b: [1] } }, [{ op: 'test', path: '/a', value: { b: [1] } }], { a: { b: [1] } }],
  ['escaped keys', { 'a/b': 1, 'm~n': 2, '~1': 3 }, [
    { op: 'replace', path: '/a~1b', value: 4 }, { op: 'replace', path: '/m~0n', value: 5 }, { op: 'replace', path: '/~01', value: 6 },
  ], { 'a/b': 4, 'm~n': 5, '~1': 6 }],
  ['an empty key', { '': 1 }, [{ op: 'replace', path: '/', value: 2 }], { '': 2 }],
];

for (const [name, doc, patch, want] of cases) {
  test(name, () => {
    const before = structuredClone(doc);
    assert.deepEqual(applyPatch(doc, patch), want);
    assert.deepEqual(doc, before, 'the input must stay as it was');
  });
}

const refused = [
  ['no parent', {}, { op: 'add', path: '/a/b', value: 1 }],
  ['parent is no container', { a: 1 }, { op: 'add', path: '/a/b', value: 1 }],
  ['replace what is not there', {}, { op: 'replace', path: '/a', value: 1 }],
  ['remove what is not there', {}, { op: 'remove', path: '/a' }],
  ['index past the end', [1], { op: 'add', path: '/2', value: 1 }],
  ['index with a leading zero', [1, 2], { op: 'replace', path: '/01', value: 1 }],
  ['replace at -', [1], { op: 'replace', path: '/-', value: 1 }],
  ['move into itself', { a: { b: {} } }, { op: 'move', from: '/a', path: '/a/b' }],
  ['test fails', { a: 1 }, { op: 'test', path: '/a', value: '1' }],
  ['add without a value', {}, { op: 'add', path: '/a' }],
  ['unknown operation', {}, { op: 'append', path: '/a', value: 1 }],
  ['not a pointer', { a: 1 }, { op: 'replace', path: 'a', value: 1 }],
  ['inherited members are not there', {}, { op: 'replace', path: '/constructor', value: 1 }],
];

for (const [name, doc, op] of refused) {
  test(`refused: ${name}`, () => assert.throws(() => applyPatch(doc, [op])));
}

test('a patch is applied whole or not at all', () => {
  const doc = { a: 1 };
  assert.throws(() => applyPatch(doc, [{ op: 'replace', path: '/a', value: 2 }, { op: 'remove', path: '/b' }]));
  assert.deepEqual(doc, { a: 1 });
});

test('__proto__ is a member like any other', () => {
  const out = applyPatch({}, [{ op: 'add', path: '/__proto__', value: { polluted: true } }]);
  assert.equal(out.polluted, undefined);
  assert.equal({}.polluted, undefined);
  assert.equal(JSON.stringify(out), '{"__proto__":{"polluted":true}}');
});
