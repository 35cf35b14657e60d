// Owns texts on which incremental rendering is easy to get wrong. Each is shown at every one of its prefixes.

export interface Tricky {
  name: string;
  text: string;
  /** A link defined after its use: until the end, earlier blocks cannot know of it. */
  lateReference?: boolean;
}

export const TRICKY: Tricky[] = [
  { name: 'setext headings', text: 'Title\n===\n\nSub\n---\n\ntext\nmore\n-\n\nend' },
  { name: 'a heading mark that is none', text: 'para\n#x goes on\n# real\n#\n\nafter' },
  { name: 'lazy quotes', text: '> quoted\nlazy line\n> again\n\n> new\n- list\n\nout' },
  { name: 'nested quotes', text: '> a\n> > b\n> > > c\n> back\n\n> ```\n> code\n> ```\n\nz' },
  { name: 'a list that turns loose', text: '- one\n- two\n\n- three\n  more\n\n  para\n- four\n\nafter' },
  { name: 'nested lists', text: '1. a\n   - b\n     1. c\n\n        d\n   - e\n2. f\n\n2) other list\n* star\n+ plus\n' },
  { name: 'an ordered list that may not interrupt', text: 'text\n2. not a list\n1. a list\n14. item\n\nend' },
  { name: 'empty list items', text: 'para\n-\n- x\n-\n\n-\n\n  y\n\n*\n' },
  { name: 'table', text: 'before\n\n| a | b |\n|:--|--:|\n| 1 | 2 |\n| 3 | `x\\|y` |\n\nafter' },
  { name: 'a table right under a paragraph', text: 'text\na | b\n--|--\n1 | 2\nstill a row\n\n# h\n' },
  { name: 'a table that never comes', text: 'text\na | b\n--|-x\n1 | 2\n\nc | d\n---\nend' },
  { name: 'two tables', text: '|a|\n|-|\n|1|\n\n|b|\n|:-:|\n|2|' },
  { name: 'fences', text: 'x\n```python\ndef f():\n    return "```"\n\n\n# no heading\n```\ny\n~~~\n```\n~~~\nz' },
  { name: 'longer fences around fences', text: '````md\n```js\nlet a = 1;\n```\n````\n\ntext `` ` `` end' },
  { name: 'an unclosed fence', text: 'intro\n\n```js\nconst a = 1;\n\n- not a list\n\nstill code' },
  { name: 'a fence in a list', text: '- a\n\n  ```sh\n  ls\n\n  pwd\n  ```\n- b\n      code\n\nout' },
  { name: 'indented code', text: 'para\n    lazy, no code\n\n    code\n\n    more code\n\ttab code\n\npara' },
  { name: 'emphasis over lines', text: '**bold\nstill** *it **both*** ~~gone~~ __x_y__ a*b*c **open\n\n*new' },
  { name: 'inline code and escapes', text: '`a` ``b ` c`` \\*no\\* \\` &amp; &lt;b&gt; &#128512; &copy\n\n`open\n\nnext`' },
  { name: 'links', text: '[a](http://a.example/x "t") <https://b.example> https://c.example/p_(q) [x](javascript:alert(1)) [half](http://d' },
  { name: 'reference defined before use', text: '[r]: https://r.example/ "title"\n\nsee [r] and [text][r]\n\n[r]: https://other.example/\n\n[r]' },
  { name: 'a definition over several lines', text: 'start\n\n[m]:\nhttps://m.example/\n"multi\nline"\n\nuse [m]\n\n[n]: https://n.example/\n"never closed\n\n[n] end' },
  { name: 'a title that swallows a paragraph', text: 'start\n\n[m]: https://m.example/\n"multi\nline"\n\nuse [m]\n\nend' },
  { name: 'reference defined after use', text: 'see [later] here\n\nand [again][later]\n\npara\n\n[later]: https://l.example/', lateReference: true },
  { name: 'definition inside a quote', text: '> [q]: https://q.example/\n> text\n\n[q] outside\n\nend' },
  { name: 'images', text: '![alt](https://i.example/x.png) ![][r] [![in](https://i.example/y.png)](https://a.example)\n\n![r]\n\n[r]: https://i.example/z.png', lateReference: true },
  { name: 'raw HTML', text: '<div onclick="x()">\n\n<b>bold</b> <script>alert(1)</script>\n<!-- c -->\n\n<img src=x>\nend' },
  { name: 'CRLF', text: 'a\r\nb\r\n\r\n- c\r\n- d\r\n\r\n```\r\ncode\r\n```\r\n\r\nend\r\n' },
  { name: 'lone carriage returns', text: 'a\rb\r\rc\r# d\re' },
  { name: 'characters of many units', text: '👩‍👩‍👧‍👦 हिन्दी में **उत्तर** 漢字かな交じり文\n\n- 😀\n- é\n\n| स्तंभ | 値 |\n|--|--|\n| क | 一 |\n' },
  { name: 'right to left', text: '# مرحبا\n\nשלום **עולם** abc\n\n- مرحبا\n- hello\n' },
  { name: 'thematic breaks', text: 'a\n\n---\n\n* * *\n- - -\nb\n***\n- x\n---\ny\n___' },
  { name: 'hard breaks and trailing space', text: 'a  \nb\\\nc \n\n   d\n    e  \n\n   \nf' },
  { name: 'blank starts and NUL', text: '\n\n   \n\na\u0000b\n\n\n\n\tc\n' },
  { name: 'brackets that never close', text: '[[[[a](b)[c][[d]\n\n![[x](y\n\n(((([z]' },
  { name: 'math', text: 'So $x^2$ and \\(y\\), $$a$$ in line.\n\n$$\n\\frac{a}{b}\n$$\n\n\\[ z \\]\n\n- $$ q\n  r $$\n- $5 and $6, a$b$c\n\n$$open\n\nto the end' },
  { name: 'task list brackets', text: 'Do:\n- [ ] one **a**\n- [x] two\n- [y] no task\n  - [X] nested\n\n[ ] no item\n' },
  { name: 'bare addresses', text: 'https://a.example/?q=1&b=2, http://b.example. ftp://c.example mailto:x@y.example x@y.example\n\nhttps://d.example/**bold**' },
];
