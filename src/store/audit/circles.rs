//! Sessions that are their own ancestors: no host makes them, and whoever follows parents to the top never comes there.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};

/// Who has whom as a parent. Ids are kept as 64-bit hashes under a key of this run.
#[derive(Debug, Default)]
pub(super) struct Circles {
    hasher: RandomState,
    parents: HashMap<u64, u64>,
}

impl Circles {
    pub(super) fn child(&mut self, id: &[u8], parent: &[u8]) {
        self.parents.insert(self.hasher.hash_one(id), self.hasher.hash_one(parent));
    }

    /// The hashes of those in a circle; who only descends from one is not in it.
    pub(super) fn members(&self) -> HashSet<u64> {
        let (mut walked, mut members) = (HashMap::new(), HashSet::new());
        for (walk, start) in self.parents.keys().enumerate() {
            let mut at = *start;
            while let Some(parent) = self.parents.get(&at) {
                match walked.insert(at, walk) {
                    None => at = *parent,
                    Some(earlier) => {
                        // Back where this walk has been: what lies between is the circle.
                        if earlier == walk {
                            while members.insert(at) {
                                at = self.parents.get(&at).copied().unwrap_or(at);
                            }
                        }
                        break;
                    }
                }
            }
        }
        members
    }

    pub(super) fn is_member(&self, members: &HashSet<u64>, id: &[u8]) -> bool {
        members.contains(&self.hasher.hash_one(id))
    }
}

#[cfg(test)]
mod tests {
    use super::Circles;

    #[test]
    fn those_in_a_circle_and_not_those_below_it() {
        let mut circles = Circles::default();
        for (id, parent) in [
            ("a", "b"),
            ("b", "a"),
            ("below", "a"),
            ("lower", "below"),
            ("own", "own"),
            ("child", "root"),
            ("x", "y"),
            ("y", "z"),
            ("z", "x"),
        ] {
            circles.child(id.as_bytes(), parent.as_bytes());
        }
        let members = circles.members();
        let is = |id: &&str| circles.is_member(&members, id.as_bytes());
        let all = ["a", "b", "below", "lower", "own", "child", "root", "x", "y", "z"];
        assert_eq!(all.iter().copied().filter(|id| is(id)).collect::<Vec<_>>(), ["a", "b", "own", "x", "y", "z"]);
    }
}
