"""TokenTree: drafts merge, verdicts are facts, the walk commits."""

import pytest

from dsi_ray.core.messages import TokenLogprobs
from dsi_ray.core.tree import NodeState, TokenTree, TreeNode


@pytest.fixture
def tree() -> TokenTree:
    """Prompt 7 8; the root is at position 1."""
    return TokenTree([7, 8])


def commit(tree: TokenTree) -> list[int]:
    """All that can be committed now."""
    tokens = []
    while (token := tree.advance()) is not None:
        tokens.append(token)
    return tokens


def test_needs_a_prompt() -> None:
    with pytest.raises(ValueError, match="at least one prompt token"):
        TokenTree([])


def test_root_is_the_last_prompt_token(tree: TokenTree) -> None:
    assert (tree.root.token, tree.root.position) == (8, 1)
    assert tree.tokens_to(tree.root)[:] == (7, 8)


def test_equal_paths_of_drafters_are_one_path(tree: TokenTree) -> None:
    first = tree.draft(tree.root, [1, 2, 3], 0)
    second = tree.draft(tree.root, [1, 2, 4], 1)
    assert first is not second
    assert first.parent is second.parent
    assert first.parent is not None
    assert first.parent.drafters == {0, 1}
    assert (first.drafters, second.drafters) == ({0}, {1})


def test_path_to_a_tip_begins_at_the_root(tree: TokenTree) -> None:
    tip = tree.draft(tree.root, [1, 2], 0)
    assert [node.token for node in tree.path(tip)] == [8, 1, 2]
    assert tree.tokens_to(tip)[:] == (7, 8, 1, 2)


def test_walk_commits_only_what_is_known(tree: TokenTree) -> None:
    tip = tree.draft(tree.root, [1, 2, 3], 0)
    assert tree.advance() is None
    tree.judge(tree.root, [1, 2])
    assert commit(tree) == [1, 2]
    assert tree.root is tip.parent
    assert tree.tokens[:] == (7, 8, 1, 2)
    assert tip.state is NodeState.AHEAD


def test_rejection_leaves_no_path(tree: TokenTree) -> None:
    tip = tree.draft(tree.root, [1, 2], 0)
    tree.judge(tree.root, [5])
    assert commit(tree) == [5]
    assert tip.state is NodeState.DEAD
    assert tree.path(tip) == []
    assert not tree.root.children


def test_survivor_hands_over_to_the_drafter_still_on_the_path(tree: TokenTree) -> None:
    wrong = tree.draft(tree.root, [1, 1], 0)
    right = tree.draft(tree.root, [2, 2], 1)
    tree.judge(tree.root, [2])
    commit(tree)
    assert wrong.state is NodeState.DEAD
    assert right.state is NodeState.AHEAD
    assert tree.root.drafters == {1}
    assert (tree.accepted, tree.rejected) == (1, 0)


def test_verdict_ahead_of_the_root_kills_siblings_at_once(tree: TokenTree) -> None:
    good = tree.draft(tree.root, [1, 2], 0)
    bad = tree.draft(tree.root, [1, 3, 4], 1)
    assert good.parent is not None
    tree.judge(good.parent, [2])
    assert bad.state is NodeState.DEAD
    assert good.state is NodeState.AHEAD
    assert tree.root.state is NodeState.AHEAD


def test_a_draft_after_a_verdict_that_contradicts_it_is_born_dead(tree: TokenTree) -> None:
    tree.judge(tree.root, [1])
    late = tree.draft(tree.root, [2, 3], 0)
    assert late.state is NodeState.DEAD
    assert tree.draft(tree.root, [1, 3], 0).state is NodeState.AHEAD


def test_verdicts_out_of_order_cascade(tree: TokenTree) -> None:
    path = tree.path(tree.draft(tree.root, [1, 2, 3], 0))
    tree.judge(path[2], [3])
    tree.judge(path[1], [2])
    assert tree.advance() is None
    tree.judge(path[0], [1])
    assert commit(tree) == [1, 2, 3]


def test_verdicts_on_a_dead_path_change_nothing(tree: TokenTree) -> None:
    dead = tree.draft(tree.root, [1], 0)
    tree.judge(tree.root, [2])
    tree.judge(dead, [9, 9])
    assert commit(tree) == [2]


def test_first_verdict_stands(tree: TokenTree) -> None:
    tree.judge(tree.root, [1])
    off = tree.judge(tree.root, [2, 5])
    assert off.state is NodeState.DEAD
    assert commit(tree) == [1]


def test_late_verdict_on_a_committed_path_leads_to_its_node(tree: TokenTree) -> None:
    old = tree.root
    tree.judge(old, [1, 2])
    commit(tree)
    assert tree.judge(old, [1, 2, 3]) is tree.root.child(3)
    assert commit(tree) == [3]


def test_survivor_of_a_wrong_path_is_its_last_right_token(tree: TokenTree) -> None:
    tip = tree.draft(tree.root, [1, 2, 3], 0)
    kept = tree.path(tip)[1]
    tree.judge(kept, [9, 9])
    node = tree.survivor(tip)
    assert tree.tokens_to(node)[:] == (7, 8, 1, 9, 9)


def test_survivor_of_a_committed_tip_is_the_root(tree: TokenTree) -> None:
    tip = tree.draft(tree.root, [1], 0)
    tree.judge(tree.root, [1, 2])
    commit(tree)
    assert tip.state is NodeState.COMMITTED
    assert tree.survivor(tip) is tree.root


def test_tokens_nobody_guessed_count_neither_way(tree: TokenTree) -> None:
    tree.judge(tree.root, [1])
    commit(tree)
    assert (tree.accepted, tree.rejected) == (0, 0)
    tree.draft(tree.root, [2], 0)
    tree.judge(tree.root, [3])
    commit(tree)
    assert (tree.accepted, tree.rejected) == (0, 1)


def test_a_node_awaits_a_verdict_until_one_is_known(tree: TokenTree) -> None:
    node: TreeNode = tree.draft(tree.root, [1], 0)
    assert node.awaits_verdict
    tree.judge(node, [2])
    assert not node.awaits_verdict


def test_runs_of_accepted_tokens(tree: TokenTree) -> None:
    """Two came true, one did not, one had no draft at all, three came true."""
    tree.judge(tree.draft(tree.root, [1, 2, 3], 0), [])
    tree.judge(tree.root, [1, 2, 4, 5])
    commit(tree)
    assert tree.runs == [2, 0]
    tree.draft(tree.root, [6], 0)
    tree.judge(tree.root, [7])
    commit(tree)
    assert tree.runs == [2, 0, 0]
    tree.draft(tree.root, [1, 2, 3], 0)
    tree.judge(tree.root, [1, 2, 3, 4])
    commit(tree)
    assert tree.runs == [2, 0, 3, 0]
    assert (tree.accepted, tree.rejected) == (5, 2)


def test_a_node_keeps_what_its_verdict_came_with(tree: TokenTree) -> None:
    root = tree.root
    last = tree.judge(root, [1, 2], [TokenLogprobs(-1), TokenLogprobs(-2)])
    tree.judge(root, [3, 4], [TokenLogprobs(-3), TokenLogprobs(-4)])
    assert last.parent is not None
    assert (root.logprobs, last.parent.logprobs) == (TokenLogprobs(-1), TokenLogprobs(-2))
    assert last.logprobs is None


def test_the_first_proposal_at_a_node_stands() -> None:
    tree = TokenTree([1])
    root = tree.root
    tree.draft(root, [2], 0)
    tip = tree.draft(root, [2, 3], 0, [b"a", b"b"])
    tree.draft(root, [4], 1, [b"c"])
    assert tip.parent is not None
    assert (root.proposal, tip.parent.proposal, tip.proposal) == (b"a", b"b", b"")
