// A question of the agent's: a permission's options as buttons, an input as buttons or a
// small form made from its response schema.

import { el, pretty, visible, words } from './dom.js';

let cards = 0; // made so far: each has ids of its own

/**
 * questionCard draws an open question. answer(resume) is called with the entry of
 * RunAgentInput.resume that the person's choice makes.
 */
export function questionCard(interrupt, args, answer) {
  const card = el('section', { className: 'question' });
  const title = el('h3', { id: `question-${++cards}`, textContent: words(args.title) || words(interrupt.message) || 'The agent asks' });
  card.setAttribute('role', 'group');
  card.setAttribute('aria-labelledby', title.id);
  card.append(title);
  const details = describe(args, args.warnings ?? interrupt.metadata?.warnings);
  if (details) {
    details.id = `${title.id}-details`;
    card.setAttribute('aria-describedby', details.id);
    card.append(details);
  }
  const reply = (entry) => {
    for (const control of card.querySelectorAll('button, input, select, textarea')) control.disabled = true;
    answer({ interruptId: interrupt.id, ...entry });
  };
  const resolve = (payload) => reply({ status: 'resolved', payload });
  const edits = args.may_edit ? editor(args.args) : null;
  if (edits) card.append(edits.label);
  card.append(Array.isArray(args.options) && args.options.every((o) => o?.id && o?.kind)
    ? optionButtons(args.options, (option) => {
      const changed = edits?.changed(option);
      if (changed !== null) resolve({ optionId: option.id, ...changed });
    })
    : inputForm(interrupt.responseSchema ?? args.response_schema ?? {}, resolve, () => reply({ status: 'cancelled' })));
  return card;
}

/** questionWords is what a screen reader tells of a question that has come up. */
export function questionWords(card) {
  const tool = card.querySelector('dd')?.textContent;
  return `Question: ${card.querySelector('h3').textContent}${tool ? ` Tool: ${tool}.` : ''}`;
}

function describe(args, codes) {
  const found = Array.isArray(codes) ? codes : [];
  if (!args.tool && !found.length) return null;
  const facts = el('dl');
  if (args.tool) facts.append(el('dt', {}, 'Tool'), el('dd', {}, args.tool));
  if (args.tool && args.risk) facts.append(el('dt', {}, 'Risk'), el('dd', {}, args.risk));
  if (args.tool && args.args !== undefined) {
    const text = typeof args.args_text === 'string' ? args.args_text : pretty(JSON.stringify(args.args));
    facts.append(el('dt', {}, 'With'), el('dd', {}, el('pre', { textContent: text })));
  }
  for (const code of found) {
    facts.append(el('dt', { className: 'warning' }, 'Careful'), el('dd', { className: 'warning' }, warnings[code] ?? code));
  }
  return facts;
}

// warnings are the server's, by their code.
const warnings = {
  number_precision: 'A number has more digits than most programs keep.',
  number_range: 'A number is larger than most programs can hold.',
  duplicate_key: 'A name stands twice in one object: programs differ in which they take.',
  bidi_character: 'Characters turn the direction of what follows.',
  invisible_character: 'There are characters that show nothing.',
  control_character: 'There are control characters.',
  invalid_text: 'There is text that is broken.',
  args_text_cut: 'Only the beginning is shown.',
  agent_unconfined: 'This agent could approve for itself: it runs with the rights of the server (--unconfined).',
  label_contradicts_kind: 'The agent named a button for the opposite of what it does.',
};

// kinds are what options do. The agent's label, which may say anything, stands behind.
const kinds = { allow_once: 'Allow once', allow_always: 'Allow always', reject_once: 'Reject', reject_always: 'Reject always' };

function optionName(option) {
  const label = visible(words(option.label || option.id));
  const kind = kinds[option.kind];
  if (!kind) return [label];
  return kind.toLowerCase() === label.toLowerCase() ? [kind] : [kind, el('small', {}, ` “${label}”`)];
}

// editor returns a field with the arguments, for a question whose arguments may be changed. changed returns the members to
// send with an option: none for a rejection or unchanged arguments, null if the text is not JSON.
function editor(args) {
  const before = JSON.stringify(args ?? {}, null, 2);
  const control = el('textarea', { value: before, rows: Math.min(12, before.split('\n').length), spellcheck: false });
  const label = el('label', {}, el('span', {}, 'Arguments, which you may change'), control);
  const changed = (option) => {
    if (control.value === before || !option.kind.startsWith('allow')) return {};
    try {
      return { editedArgs: JSON.parse(control.value) };
    } catch (err) {
      control.setCustomValidity(`This is not JSON: ${err.message}`);
      control.reportValidity();
      return null;
    }
  };
  control.addEventListener('input', () => control.setCustomValidity(''));
  return { label, changed };
}

function optionButtons(options, resolve) {
  const row = el('div', { className: 'buttons' });
  for (const option of options) {
    const button = el('button', { type: 'button' }, ...optionName(option));
    button.dataset.kind = option.kind;
    button.addEventListener('click', () => resolve(option));
    row.append(button);
  }
  return row;
}

function inputForm(schema, resolve, decline) {
  const skip = el('button', { type: 'button', textContent: 'Skip', className: 'quiet' });
  skip.addEventListener('click', decline);
  const only = onlyChoice(schema);
  if (only) {
    const row = el('div', { className: 'buttons' });
    for (const value of only.values) {
      const button = el('button', { type: 'button', textContent: visible(words(value)) });
      button.addEventListener('click', () => resolve(only.wrap(value)));
      row.append(button);
    }
    row.append(skip);
    return row;
  }
  const fields = fieldsOf(schema);
  const form = el('form', {}, ...fields.map((f) => f.label), el('div', { className: 'buttons' },
    el('button', { type: 'submit', textContent: 'Answer' }), skip));
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    resolve(valueOf(schema, fields));
  });
  return form;
}

// onlyChoice: a question that can only be answered in one of a few ways needs no form.
function onlyChoice(schema) {
  if (Array.isArray(schema.enum)) return { values: schema.enum, wrap: (v) => v };
  const names = Object.keys(schema.properties ?? {});
  const single = names.length === 1 ? schema.properties[names[0]] : undefined;
  if (!Array.isArray(single?.enum)) return null;
  return { values: single.enum, wrap: (v) => ({ [names[0]]: v }) };
}

function fieldsOf(schema) {
  if (!schema.properties) return [field('answer', schema, true)];
  const required = new Set(schema.required);
  return Object.entries(schema.properties).map(([name, s]) => field(name, s, required.has(name)));
}

function field(name, schema, required) {
  const control = controlOf(schema);
  control.name = name;
  if (control.type !== 'checkbox') control.required = required;
  return { name, schema, control, label: el('label', {}, el('span', {}, words(schema.title) || name), control) };
}

function controlOf(schema) {
  if (Array.isArray(schema.enum)) {
    const select = el('select', {}, ...schema.enum.map((v, i) => el('option', { value: String(i) }, visible(words(v)))));
    return select;
  }
  switch (schema.type) {
    case 'integer':
    case 'number': {
      const input = el('input', { type: 'number', step: schema.type === 'integer' ? '1' : 'any' });
      if (schema.minimum !== undefined) input.min = schema.minimum;
      if (schema.maximum !== undefined) input.max = schema.maximum;
      return input;
    }
    case 'boolean':
      return el('input', { type: 'checkbox' });
    default:
      return el('input', { type: 'text' });
  }
}

// valueOf reads the form. Fields left empty are left out, not sent as "".
function valueOf(schema, fields) {
  if (!schema.properties) return read(fields[0]);
  const entries = fields.map((f) => [f.name, read(f)]).filter(([, v]) => v !== undefined);
  return Object.fromEntries(entries);
}

function read({ control, schema }) {
  if (control.type === 'checkbox') return control.checked;
  if (control.value === '') return undefined;
  if (Array.isArray(schema.enum)) return schema.enum[Number(control.value)];
  return control.type === 'number' ? Number(control.value) : control.value;
}
