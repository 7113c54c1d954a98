//! Things that are numbered as they come, by their number. Most runs have few at a time: those are kept in one list,
//! the newest at its end.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::{collections::BTreeMap, fmt, mem};

/// Up to this many are kept in a list.
const MAX_LIST_ENTRIES: usize = 32;

/// An ordered map of things that come with growing numbers. Only one of the two parts is in use.
#[derive(Clone)]
pub(crate) struct Numbered<K, V> {
    /// By number.
    few: Vec<(K, V)>,
    many: BTreeMap<K, V>,
}

impl<K: Ord + Copy, V> Numbered<K, V> {
    /// Returns the position of a number in the list. The newest are asked for most.
    #[inline]
    fn place(&self, key: K) -> Option<usize> {
        self.few.iter().rposition(|(own, _)| *own == key)
    }

    #[inline]
    pub(crate) fn get(&self, key: &K) -> Option<&V> {
        if self.many.is_empty() {
            return self.few.iter().rev().find(|(own, _)| own == key).map(|(_, value)| value);
        }
        self.many.get(key)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        if self.many.is_empty() {
            return self.few.iter_mut().rev().find(|(own, _)| own == key).map(|(_, value)| value);
        }
        self.many.get_mut(key)
    }

    pub(crate) fn contains_key(&self, key: &K) -> bool {
        self.get(key).is_some()
    }

    pub(crate) fn insert(&mut self, key: K, value: V) {
        if !self.many.is_empty() {
            self.many.insert(key, value);
            return;
        }
        let at = self.few.iter().rposition(|(own, _)| *own <= key).map_or(0, |last| last + 1);
        match at.checked_sub(1).and_then(|at| self.few.get_mut(at)).filter(|(own, _)| *own == key) {
            Some((_, kept)) => *kept = value,
            None => self.few.insert(at, (key, value)),
        }
        if self.few.len() > MAX_LIST_ENTRIES {
            self.many = mem::take(&mut self.few).into_iter().collect();
        }
    }

    pub(crate) fn remove(&mut self, key: &K) -> Option<V> {
        if self.many.is_empty() {
            return self.place(*key).map(|at| self.few.remove(at).1);
        }
        let removed = self.many.remove(key);
        self.settle();
        removed
    }

    pub(crate) fn retain(&mut self, mut keep: impl FnMut(&K, &mut V) -> bool) {
        self.few.retain_mut(|(key, value)| keep(key, value));
        self.many.retain(keep);
        self.settle();
    }

    /// Moves few entries back to the list, before they are few enough for the next one to make them many again.
    fn settle(&mut self) {
        if !self.many.is_empty() && self.many.len() <= MAX_LIST_ENTRIES / 2 {
            self.few = mem::take(&mut self.many).into_iter().collect();
        }
    }

    pub(crate) fn clear(&mut self) {
        self.few.clear();
        self.many.clear();
    }

    pub(crate) fn len(&self) -> usize {
        self.few.len() + self.many.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.few.is_empty() && self.many.is_empty()
    }

    /// In order.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = (&K, &V)> {
        self.few.iter().map(|(key, value)| (key, value)).chain(self.many.iter())
    }

    /// In order, from a number on.
    pub(crate) fn from(&self, key: K) -> impl Iterator<Item = (&K, &V)> {
        let first = self.few.iter().rposition(|(own, _)| *own < key).map_or(0, |last| last + 1);
        let few = self.few.get(first..).unwrap_or_default();
        few.iter().map(|(key, value)| (key, value)).chain(self.many.range(key..))
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &K> {
        self.iter().map(|(key, _)| key)
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &V> {
        self.iter().map(|(_, value)| value)
    }
}

impl<K, V> Default for Numbered<K, V> {
    fn default() -> Self {
        Self { few: Vec::new(), many: BTreeMap::new() }
    }
}

/// The same things, however they are kept.
impl<K: Ord + Copy, V: PartialEq> PartialEq for Numbered<K, V> {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().eq(other.iter())
    }
}

impl<K: Ord + Copy + fmt::Debug, V: fmt::Debug> fmt::Debug for Numbered<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl<K: Ord + Copy, V> FromIterator<(K, V)> for Numbered<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let mut all = Self::default();
        entries.into_iter().for_each(|(key, value)| all.insert(key, value));
        all
    }
}

impl<K: Ord + Copy + Serialize, V: Serialize> Serialize for Numbered<K, V> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

impl<'de, K: Ord + Copy + Deserialize<'de>, V: Deserialize<'de>> Deserialize<'de> for Numbered<K, V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        BTreeMap::deserialize(deserializer).map(|entries| entries.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Clone)]
    enum Change {
        Insert(u8),
        Remove(u8),
        Retain(u8),
    }

    fn change() -> impl proptest::strategy::Strategy<Value = Change> {
        use proptest::prelude::*;
        prop_oneof![
            6 => any::<u8>().prop_map(Change::Insert),
            4 => any::<u8>().prop_map(Change::Remove),
            1 => (2_u8..20).prop_map(Change::Retain),
        ]
    }

    proptest::proptest! {
        #[test]
        fn it_is_an_ordered_map_whether_few_or_many(changes in proptest::collection::vec(change(), 0..400)) {
            let (mut own, mut expected) = (Numbered::default(), BTreeMap::new());
            for (at, change) in changes.into_iter().enumerate() {
                match change {
                    Change::Insert(key) => {
                        own.insert(key, at);
                        expected.insert(key, at);
                    }
                    Change::Remove(key) => proptest::prop_assert_eq!(own.remove(&key), expected.remove(&key)),
                    Change::Retain(of) => {
                        own.retain(|key, _| key % of != 0);
                        expected.retain(|key, _| key % of != 0);
                    }
                }
                proptest::prop_assert!(own.iter().eq(expected.iter()));
                proptest::prop_assert_eq!((own.len(), own.is_empty()), (expected.len(), expected.is_empty()));
                let key = (at % 256) as u8;
                proptest::prop_assert_eq!(own.get(&key).copied(), expected.get(&key).copied());
                proptest::prop_assert_eq!(own.get_mut(&key).copied(), expected.get(&key).copied());
                proptest::prop_assert!(own.from(key).eq(expected.range(key..)));
                proptest::prop_assert!(own.few.is_empty() || own.many.is_empty());
                proptest::prop_assert_eq!(&own, &expected.iter().map(|(key, value)| (*key, *value)).collect());
            }
        }
    }
}
