// Columns of numbers out of the form that columns.py writes: base64 of zlib, first bytes of all values first.

const KINDS = { f8: Float64Array, u1: Uint8Array, u2: Uint16Array, u4: Uint32Array };

export async function column(packed) {
  const bytes = Uint8Array.from(atob(packed.bytes), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  const planes = new Uint8Array(await new Response(stream).arrayBuffer());
  const kind = KINDS[packed.type], size = kind.BYTES_PER_ELEMENT, count = packed.count;
  const plain = new Uint8Array(planes.length);
  for (let byte = 0; byte < size; byte++) {
    for (let i = 0, from = byte * count; i < count; i++) plain[i * size + byte] = planes[from + i];
  }
  const values = new kind(plain.buffer);
  if (!packed.table) return values;
  const table = await column(packed.table);
  return Float64Array.from(values, (place) => table[place]);
}

export async function columns(form) {
  const names = Object.keys(form);
  const found = await Promise.all(names.map((name) => column(form[name])));
  return Object.fromEntries(names.map((name, i) => [name, found[i]]));
}
