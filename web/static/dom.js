// Small helpers to build elements. Text goes in as text, never as markup: what an agent
// says must not be able to become part of the page.

/** el makes an element with properties and children; strings become text nodes. */
export function el(tag, props = {}, ...children) {
  const { dataset, ...rest } = props;
  const node = Object.assign(document.createElement(tag), rest);
  Object.assign(node.dataset, dataset);
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

/** setText touches the page only when the words changed; it keeps a selection alive. */
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** reuse finds the child kept under a key, or makes and appends it. */
export function reuse(parent, key, make) {
  for (const child of parent.children) {
    if (child.dataset.key === key) return child;
  }
  const child = make();
  child.dataset.key = key;
  parent.append(child);
  return child;
}

/** arrange puts children into the order of keys and removes those not named. */
export function arrange(parent, keys) {
  const wanted = new Set(keys);
  for (const child of [...parent.children]) {
    if (!wanted.has(child.dataset.key)) child.remove();
  }
  const byKey = new Map(Array.from(parent.children, (child) => [child.dataset.key, child]));
  keys.forEach((key, i) => {
    const child = byKey.get(key);
    if (parent.children[i] !== child) parent.insertBefore(child, parent.children[i] ?? null);
  });
}

/** pretty is JSON as people read it; text that is no JSON stays as it is. */
export function pretty(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}
