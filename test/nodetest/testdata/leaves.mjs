import http from 'node:http';
import { before, test } from 'node:test';

before(() => {
  http.createServer().listen(0, '127.0.0.1'); // keeps node where nothing ends it
  throw new Error('the hook failed');
});

test('never begun', () => {});
