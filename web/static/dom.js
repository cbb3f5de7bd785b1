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

/** words is a value as text: an agent may send anything where a text is expected, and String() of an object may throw. */
export function words(value) {
  if (typeof value === 'string') return value;
  return value === undefined || value === null ? '' : JSON.stringify(value);
}

const texts = new WeakMap(); // element → the words it shows

/**
 * setText touches the page only when the words changed. Words that grew are appended to: it
 * keeps a selection alive, and does not build a long answer anew for each of its deltas.
 */
export function setText(node, text) {
  const shown = texts.get(node) ?? node.textContent;
  if (shown === text) return;
  texts.set(node, text);
  if (shown !== '' && text.startsWith(shown)) appendText(node, text.slice(shown.length));
  else node.textContent = text;
}

const longText = 4000; // characters after which a long text goes on in a block of its own

// appendText ends a long text's block at a line's end, and goes on in another: the browser
// lays out a block anew, whole, for each piece that it grows by.
function appendText(node, more) {
  const last = node.lastChild;
  const leaf = last.firstChild ?? last;
  const cut = leaf.length > longText ? more.indexOf('\n') + 1 : 0;
  if (cut === 0) {
    leaf.appendData(more);
    return;
  }
  leaf.appendData(more.slice(0, cut));
  if (last === leaf) {
    const part = el('span', { className: 'part' });
    last.replaceWith(part);
    part.append(last);
  }
  node.append(el('span', { className: 'part' }, more.slice(cut)));
}

const kept = new WeakMap(); // parent → its children by key

function childrenOf(parent) {
  if (!kept.has(parent)) kept.set(parent, new Map());
  return kept.get(parent);
}

/** reuse finds the child kept under a key, or makes and appends it. */
export function reuse(parent, key, make) {
  const children = childrenOf(parent);
  if (!children.has(key)) {
    children.set(key, make());
    parent.append(children.get(key));
  }
  return children.get(key);
}

/** prune removes the children that reuse made under other keys. */
export function prune(parent, keys) {
  const children = childrenOf(parent);
  const wanted = new Set(keys);
  for (const [key, child] of children) {
    if (wanted.has(key)) continue;
    child.remove();
    children.delete(key);
  }
}

/** arrange puts the children that reuse made into the order of keys and removes the others. */
export function arrange(parent, keys) {
  prune(parent, keys);
  const children = childrenOf(parent);
  let at = parent.firstElementChild;
  for (const key of new Set(keys)) {
    const child = children.get(key);
    if (child === at) at = at.nextElementSibling;
    else parent.insertBefore(child, at);
  }
}

/**
 * pretty is JSON as people read it; text that is no JSON stays as it is. Numbers and keys are those of the text: parsed and
 * written again, a number may be another, and of two members of one name one would be gone.
 */
export function pretty(text) {
  try {
    JSON.parse(text);
  } catch {
    return visible(text);
  }
  let depth = 0;
  const line = () => `\n${'  '.repeat(depth)}`;
  return visible(text.replace(/"(?:[^"\\]|\\.)*"|[{[]\s*[}\]]|[{}[\],:]|\s+/g, (token) => {
    switch (token[0]) {
      case '{': case '[':
        if (token.length > 1) return token[0] + token.at(-1);
        depth++;
        return token + line();
      case '}': case ']':
        depth--;
        return line() + token;
      case ',': return token + line();
      case ':': return ': ';
      case '"': return token;
      default: return '';
    }
  }));
}

/** visible names the characters that show nothing, or turn the direction of what follows, instead of showing them. */
export function visible(text) {
  return text.replace(/[^\P{C}\n\t]|[\p{Zl}\p{Zp}\u00a0\u034f\u115f\u1160\u2800\u3164\uffa0]/gu,
    (c) => `⟨U+${c.codePointAt(0).toString(16).toUpperCase().padStart(4, '0')}⟩`);
}
