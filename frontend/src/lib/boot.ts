// Owns what the page shell hands to the page: who is signed in, which tools there are, the CSRF token.

/** What a shared link shows: texts alone. */
export interface SharedConversation {
  title: string;
  turns: { role: string; content: string }[];
}

export interface Boot {
  username: string;
  is_staff: boolean;
  /** Names of the tools that the server would run for an answer. */
  tools: string[];
  /** Instead of a person: the page shows this, and nothing else. */
  shared: SharedConversation | null;
}

export function readBoot(): Boot {
  const data = JSON.parse(document.getElementById('boot')?.textContent ?? '{}') as Partial<Boot>;
  return { username: data.username ?? '', is_staff: data.is_staff ?? false, tools: data.tools ?? [], shared: data.shared ?? null };
}

/** The cookie is newer than the page when somebody signed in again in another tab. */
export function csrfToken(): string {
  const cookie = /(?:^|;\s*)(?:__Host-)?csrftoken=([^;]+)/.exec(document.cookie)?.[1];
  return cookie ?? document.querySelector<HTMLMetaElement>('meta[name="csrf-token"]')?.content ?? '';
}

/** Leaves for the login page; it leads back to where the reader was. */
export function goToLogin(): void {
  const here = location.pathname + location.search;
  location.assign(`/login/?next=${encodeURIComponent(here)}`);
}
