// Which thread this browser is in.

const key = 'aqueduct-tdesign-thread';

/** currentThread is kept over reloads. */
export function currentThread() {
  return localStorage.getItem(key) ?? newThread();
}

/** newThread leaves the old one on the server, where it stays readable. */
export function newThread() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  const id = Array.from(bytes, (b) => b.toString(16).padStart(2, '0')).join('');
  localStorage.setItem(key, id);
  return id;
}
