"""The prompt of the shell: lines until a `;`, a history, completion while one types."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.auto_suggest import AutoSuggestFromHistory
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.history import FileHistory, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

from xlahouse.sql.cli.completion import Words
from xlahouse.sql.cli.session import COMMANDS, is_whole
from xlahouse.sql.library import Library


class SqlCompleter(Completer):
    """Completes commands at the start of a line, and SQL elsewhere."""

    def __init__(self, words: Words) -> None:
        self._words = words

    def get_completions(self, document: Document, event: CompleteEvent) -> Iterable[Completion]:
        """Completions of the word before the cursor."""
        before = document.text_before_cursor
        name, space, argument = before.lstrip().partition(" ")
        if name.startswith("."):
            words = self._words.relations if space else [c.partition(" ")[0] for c in COMMANDS]
            start = argument if space else name
            yield from (Completion(w, -len(start)) for w in words if w.startswith(start))
            return
        typed = document.get_word_before_cursor(WORD=False)
        typed = "" if typed in (".", "(") else typed
        for suggestion in self._words.complete(before, document.text):
            yield Completion(
                suggestion.text, -len(typed.rpartition(".")[2]), display_meta=suggestion.kind
            )


def open_prompt(library: Library, history: Path | None = None) -> PromptSession[str]:
    """A session whose Enter sends a whole statement and else begins a new line."""
    keys = KeyBindings()
    session: PromptSession[str]

    @Condition
    def whole() -> bool:
        return is_whole(session.default_buffer.text)

    @keys.add("enter", filter=whole)
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.validate_and_handle()

    if history is not None:
        history.parent.mkdir(parents=True, exist_ok=True)
    session = PromptSession(
        "xlahouse> ",
        multiline=True,
        prompt_continuation="     ...> ",
        completer=SqlCompleter(Words(library)),
        complete_in_thread=True,
        complete_while_typing=True,
        auto_suggest=AutoSuggestFromHistory(),
        history=FileHistory(str(history)) if history else InMemoryHistory(),
        key_bindings=keys,
    )
    return session
