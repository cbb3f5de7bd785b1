// Which thread this browser is in.

const key = 'aqueduct-tdesign-thread';

/** rememberedThread is the thread of before the reload, or a new one. */
export function rememberedThread() {
  const id = localStorage.getItem(key);
  return id ? { id, known: true } : newThread();
}

/** newThread begins anew. The old thread stays on the server and readable there. */
export function newThread() {
  localStorage.removeItem(key);
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return { id: Array.from(bytes, (b) => b.toString(16).padStart(2, '0')).join(''), known: false };
}

/** remember is called when something is sent: before that the server does not know it. */
export function remember(id) {
  localStorage.setItem(key, id);
}
