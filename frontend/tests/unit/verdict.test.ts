// Laws of the verdict on a stream: the cases that the Python example is held to as well.
import { expect, it } from 'vitest';

import { verdict } from '../../src/lib/stream/verdict';
import table from '../../../tests/cases/verdict.json';

it.each(table.cases)('$name', (one) => {
  expect(verdict(one.data)).toEqual(one.verdict);
});
