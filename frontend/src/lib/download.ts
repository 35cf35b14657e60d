// Owns handing a text to the reader as a file.

export function downloadText(name: string, type: string, text: string): void {
  const url = URL.createObjectURL(new Blob([text], { type: `${type};charset=utf-8` }));
  const link = document.createElement('a');
  link.href = url;
  link.download = name;
  link.click();
  // The browser reads it after the click.
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

/** A file name that every system takes, whatever a title holds. */
export function fileName(title: string, extension: string): string {
  const plain = title.normalize('NFC').replace(/[^\p{L}\p{N}\p{M} _-]+/gu, ' ').replace(/\s+/g, ' ').trim();
  return `${plain.slice(0, 60) || 'chat'}.${extension}`;
}
