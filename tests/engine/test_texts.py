"""The texts that other packages store with the fleet."""

from fairwarning.engine.replica import StoredTexts


def test_texts_are_found_by_the_beginning_of_their_keys() -> None:
    texts = StoredTexts({"b/2": "x", "a": "x", "b/1": "x", "b": "x", "c": "x"})

    assert list(texts.under("b/")) == ["b/1", "b/2"]
    assert list(texts.under("b")) == ["b", "b/1", "b/2"]
    assert list(texts.under("")) == ["a", "b", "b/1", "b/2", "c"]
    assert list(texts.under("d")) == []


def test_texts_are_put_replaced_and_removed() -> None:
    texts = StoredTexts({"a": "old", "b": "gone"})

    texts.update({"a": "new", "b": None, "c": "added", "d": None})

    assert dict(texts) == {"a": "new", "c": "added"}
    assert list(texts.under("")) == ["a", "c"]
    assert (texts.find("a"), texts.find("b"), len(texts)) == ("new", None, 2)
