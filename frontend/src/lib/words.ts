// Owns every sentence that the page shows. Decides nothing but the words.

export const words = {
  appName: 'Chat',
  you: 'You',
  assistant: 'Assistant',
  youSaid: 'You said',
  assistantSaid: 'Assistant said',
  image: 'Image',
  plainText: 'text',
  copy: 'Copy',
  copied: 'Copied',
  copyFailed: 'Copy failed',
  codeIn: (language: string) => (language ? `Code, ${language}` : 'Code'),

  newChat: 'New chat',
  untitled: 'New chat',
  conversations: 'Conversations',
  openSidebar: 'Open conversation list',
  closeSidebar: 'Close conversation list',
  rename: 'Rename',
  renameOf: (title: string) => `Rename “${title}”`,
  remove: 'Delete',
  removeOf: (title: string) => `Delete “${title}”`,
  removeQuestion: 'Delete this conversation?',
  removeDetail: (title: string) => `“${title}” and all of its messages will be gone for good.`,
  cancel: 'Cancel',
  titleLabel: 'Title of the conversation',
  showMore: 'Show more',
  noConversations: 'Your conversations will appear here.',
  answeringNow: 'answering now',
  today: 'Today',
  yesterday: 'Yesterday',
  lastWeek: 'Previous 7 days',
  older: 'Older',
  signOut: 'Sign out',
  admin: 'Admin',
  themes: { system: 'System', light: 'Light', dark: 'Dark' },
  theme: 'Colours',
  skipToComposer: 'Skip to the message box',
  model: 'Model',

  greeting: (name: string) => (name ? `Hello, ${name}. What is on your mind?` : 'What is on your mind?'),
  emptyHint: 'Ask anything, or start with one of these.',
  notice: 'Answers are made by a language model and can be wrong.',
  composerLabel: 'Your message',
  composerPlaceholder: 'Write a message…',
  send: 'Send message',
  stop: 'Stop answering',
  loading: 'Loading the conversation…',
  loadFailed: 'This conversation could not be loaded.',
  notFound: 'This conversation does not exist, or it is not yours.',
  tryAgain: 'Try again',
  jump: 'Jump to the newest text',
  log: 'Messages',
  newAnswer: 'Regenerate',
  retry: 'Retry',
  editMessage: 'Edit message',
  copyAnswer: 'Copy answer',
  branch: (position: number, count: number) => `Answer ${position} of ${count}`,
  previousAnswer: 'Previous answer',
  nextAnswer: 'Next answer',
  requestId: (id: string) => `Reference: ${id}`,
  actionFailed: 'That did not work. Please try again.',
  dismiss: 'Dismiss',
} as const;

export function tokens(count: number): string {
  return count === 1 ? '1 token' : `${count.toLocaleString('en')} tokens`;
}

export function duration(value_ms: number): string {
  if (value_ms < 1000) return `${Math.round(value_ms)} ms`;
  return `${(value_ms / 1000).toFixed(value_ms < 10_000 ? 1 : 0)} s`;
}
