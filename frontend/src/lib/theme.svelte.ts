// Owns the choice of colours: the system's, light or dark, kept over a reload.

export type Theme = 'system' | 'light' | 'dark';
export const THEMES: Theme[] = ['system', 'light', 'dark'];
const KEY = 'theme';

class ThemeChoice {
  current: Theme = $state(stored());

  choose(theme: Theme): void {
    this.current = theme;
    try {
      localStorage.setItem(KEY, theme);
    } catch {
      // the choice lasts as long as the page
    }
    this.apply();
  }

  apply(): void {
    const root = document.documentElement;
    if (this.current === 'system') delete root.dataset.theme;
    else root.dataset.theme = this.current;
  }
}

function stored(): Theme {
  try {
    return THEMES.find((theme) => theme === localStorage.getItem(KEY)) ?? 'system';
  } catch {
    return 'system';
  }
}

export const theme = new ThemeChoice();
