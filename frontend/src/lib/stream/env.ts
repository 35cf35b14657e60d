// Owns what a connection needs from the browser (fetch, time, chance, network), so that tests can bring their own.
import type { StandIns } from './stand_ins';
import { askWithToken } from './token';

export interface Clock {
  now(): number;
  setTimeout(callback: () => void, delay_ms: number): number;
  clearTimeout(handle: number): void;
}

export type NetworkEvent = 'online' | 'offline' | 'visible' | 'hidden';

export interface Network {
  isOnline(): boolean;
  /** Nobody looks at the page. */
  isHidden(): boolean;
  listen(listener: (event: NetworkEvent) => void): () => void;
}

export interface Env {
  fetch(url: string, init: RequestInit): Promise<Response>;
  clock: Clock;
  random(): number;
  network: Network;
  csrfToken(): string;
  standIns: StandIns;
}

export function browserEnv(csrfToken: () => string, standIns: StandIns): Env {
  return {
    fetch: (url, init) => askWithToken((...request) => fetch(...request), csrfToken, url, init),
    clock: {
      now: () => performance.now(),
      setTimeout: (callback, delay_ms) => window.setTimeout(callback, delay_ms),
      clearTimeout: (handle) => window.clearTimeout(handle),
    },
    random: Math.random,
    network: { isOnline: () => navigator.onLine, isHidden: () => document.hidden, listen: listenToBrowser },
    csrfToken,
    standIns,
  };
}

function listenToBrowser(listener: (event: NetworkEvent) => void): () => void {
  const online = () => listener('online');
  const offline = () => listener('offline');
  const visibility = () => listener(document.hidden ? 'hidden' : 'visible');
  window.addEventListener('online', online);
  window.addEventListener('offline', offline);
  document.addEventListener('visibilitychange', visibility);
  return () => {
    window.removeEventListener('online', online);
    window.removeEventListener('offline', offline);
    document.removeEventListener('visibilitychange', visibility);
  };
}
