// The tree of what is drafted and not decided, as rows to read, and what each commit has confirmed of it. Pure.
//
// A node comes as [depth, text, probability], each before those below it, the likelier sibling first.

const MOST_COMMITS = 100; // kept of one answer, the latest

/** Nodes without a choice between them share one row: { depth, text, probability, isLikeliest }. */
export function rowsOf(nodes) {
  const rows = [];
  nodes.forEach(([depth, text, probability], index) => {
    const before = nodes[index - 1];
    const isOnlyChild = before?.[0] === depth - 1 && !hasSibling(nodes, index);
    const parent = rows.at(-1);
    if (isOnlyChild) {
      parent.text += text;
      parent.probability = probability;
      parent.end = depth;
      return;
    }
    const above = rows.findLast((row) => row.start < depth && row.end === depth - 1);
    const isFirst = depth === 0 ? index === 0 : before?.[0] === depth - 1;
    rows.push({
      start: depth,
      end: depth,
      depth: above ? above.depth + 1 : 0,
      text,
      probability,
      isLikeliest: isFirst && (above?.isLikeliest ?? true),
    });
  });
  return rows.map(({ depth, text, probability, isLikeliest }) => ({ depth, text, probability, isLikeliest }));
}

function hasSibling(nodes, index) {
  const depth = nodes[index][0];
  for (let next = index + 1; next < nodes.length && nodes[next][0] >= depth; next += 1) {
    if (nodes[next][0] === depth) return true;
  }
  return false;
}

/** What has been confirmed of one answer, the latest first, and how much of it had been drafted. */
export class CommitLog {
  commits = [];
  steps = 0;
  tokens = 0;
  drafted = 0;

  add(commits) {
    for (const commit of commits) {
      this.tokens += commit.drafted.length + commit.decided.length;
      this.drafted += commit.drafted.length;
      this.steps += 1;
      this.commits.unshift(commit);
    }
    this.commits.length = Math.min(this.commits.length, MOST_COMMITS);
  }

  get summary() {
    if (!this.tokens) return "Nothing is confirmed yet.";
    const share = Math.round((100 * this.drafted) / this.tokens);
    const steps = this.steps === 1 ? "one step" : `${this.steps} steps`;
    return `${this.tokens} tokens confirmed in ${steps}; ${share}% had been drafted here.`;
  }
}
