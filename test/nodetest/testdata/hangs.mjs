import { test } from 'node:test';

test('never over', () => new Promise(() => setInterval(() => {}, 1000)));
