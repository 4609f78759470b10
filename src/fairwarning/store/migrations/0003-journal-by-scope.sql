-- What happened in one scope is read without going through what happened everywhere else.
CREATE INDEX journal_scope ON journal (scope, seq);
