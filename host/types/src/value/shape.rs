//! The keys of objects, kept once for all objects that have the same ones in the same order.

use super::{Text, Value};
use indexmap::IndexSet;
use std::cell::Cell;
use triomphe::Arc;

/// Up to this many keys, looking at each is faster than hashing.
const MAX_LINEAR_KEYS: usize = 8;
/// Objects with more keys than this are dictionaries rather than rows: their keys are not worth remembering.
const MAX_ROW: usize = 64;
/// The maximum number of beginnings of rows that are remembered.
const MAX_NODES: usize = 4096;
/// The maximum number of different keys that may follow one beginning of a row.
const MAX_BRANCHES: usize = 16;

/// The keys of an object, in order. Objects that come in rows share theirs.
#[derive(Debug, Clone)]
pub struct Shape(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    keys: Names,
    /// Bytes of all keys as JSON, with their colons.
    written: u64,
    /// `true` if no key has anything to escape.
    plain: bool,
    levels: u32,
}

#[derive(Debug)]
enum Names {
    Few(Box<[Text]>),
    Many(IndexSet<Text>),
}

/// The same list of keys, each at its first place.
pub(super) enum Distinct {
    /// No key was there twice.
    All(Shape),
    /// Some were: for each key that was given, its place in the shape.
    Merged(Shape, Vec<usize>),
}

fn written_key(key: &Text) -> u64 {
    (key.len() + key.escapes() + 3) as u64
}

impl Shape {
    /// The shape of objects with these keys. The first of two equal keys counts.
    #[must_use]
    pub fn new<K: Into<Text>>(keys: impl IntoIterator<Item = K>) -> Self {
        match Self::distinct(keys.into_iter().map(Into::into).collect()) {
            Distinct::All(shape) | Distinct::Merged(shape, _) => shape,
        }
    }

    fn of(keys: Names) -> Self {
        let written = match &keys {
            Names::Few(keys) => keys.iter().map(written_key).sum(),
            Names::Many(keys) => keys.iter().map(written_key).sum(),
        };
        let tag = match &keys {
            Names::Few(keys) => matches!(keys.as_ref(), [key] if key.starts_with('$')),
            Names::Many(_) => false,
        };
        let plain = match &keys {
            Names::Few(keys) => keys.iter().all(|key| key.escapes() == 0),
            Names::Many(keys) => keys.iter().all(|key| key.escapes() == 0),
        };
        Self(Arc::new(Inner { keys, written, plain, levels: 1 + u32::from(tag) }))
    }

    pub(super) fn distinct(keys: Vec<Text>) -> Distinct {
        if keys.len() <= MAX_LINEAR_KEYS {
            let mut shapes = Shapes::take();
            let known = shapes.of_keys(keys.iter().map(Text::as_str));
            shapes.give_back();
            if let Some(shape) = known {
                return Distinct::All(shape);
            }
        }
        Self::new_of(keys)
    }

    fn new_of(keys: Vec<Text>) -> Distinct {
        if keys.len() <= MAX_LINEAR_KEYS {
            let mut places = Vec::with_capacity(keys.len());
            let mut kept: Vec<Text> = Vec::with_capacity(keys.len());
            for key in keys {
                let place = kept.iter().position(|other| *other == key).unwrap_or_else(|| {
                    kept.push(key);
                    kept.len() - 1
                });
                places.push(place);
            }
            let all = kept.len() == places.len();
            let shape = Self::of(Names::Few(kept.into()));
            return if all { Distinct::All(shape) } else { Distinct::Merged(shape, places) };
        }
        let mut kept = IndexSet::with_capacity(keys.len());
        let places: Vec<usize> = keys.into_iter().map(|key| kept.insert_full(key).0).collect();
        let all = kept.len() == places.len();
        let keys =
            if kept.len() <= MAX_LINEAR_KEYS { Names::Few(kept.into_iter().collect()) } else { Names::Many(kept) };
        if all { Distinct::All(Self::of(keys)) } else { Distinct::Merged(Self::of(keys), places) }
    }

    /// The same keys, shared with no one yet: threads that make objects of one shape do not wait for each other.
    #[must_use]
    pub fn unshared(&self) -> Self {
        match Self::new_of(self.keys().cloned().collect()) {
            Distinct::All(shape) | Distinct::Merged(shape, _) => shape,
        }
    }

    /// The place of a key.
    #[must_use]
    #[inline]
    pub fn place(&self, key: &str) -> Option<usize> {
        match &self.0.keys {
            Names::Few(keys) => keys.iter().position(|own| own.as_bytes() == key.as_bytes()),
            Names::Many(keys) => keys.get_index_of(key),
        }
    }

    /// The key at a place.
    #[must_use]
    #[inline]
    pub fn key(&self, place: usize) -> Option<&Text> {
        match &self.0.keys {
            Names::Few(keys) => keys.get(place),
            Names::Many(keys) => keys.get_index(place),
        }
    }

    /// Returns the number of keys.
    #[must_use]
    pub fn len(&self) -> usize {
        match &self.0.keys {
            Names::Few(keys) => keys.len(),
            Names::Many(keys) => keys.len(),
        }
    }

    /// Returns `true` if there are no keys.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns `true` if both are the same shape, not just one with equal keys.
    #[must_use]
    #[inline]
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Bytes of all keys as JSON, with their colons.
    pub(super) fn written(&self) -> u64 {
        self.0.written
    }

    /// Bytes of one key as JSON, with its colon.
    pub(super) fn written_key(&self, place: usize) -> u64 {
        self.key(place).map_or(0, |key| if self.0.plain { key.len() as u64 + 3 } else { written_key(key) })
    }

    /// Returns the number of levels that an object of this shape adds. An object whose only key starts with `$` counts
    /// as two: events write it inside of another one, so that it cannot be taken for one of their own tags.
    pub(super) fn levels(&self) -> u32 {
        self.0.levels
    }

    pub(super) fn keys(&self) -> Keys<'_> {
        match &self.0.keys {
            Names::Few(keys) => Keys(Either::Few(keys.iter())),
            Names::Many(keys) => Keys(Either::Many(keys.iter())),
        }
    }
}

/// Equal keys in the same order.
impl PartialEq for Shape {
    fn eq(&self, other: &Self) -> bool {
        self.is_same(other) || self.keys().eq(other.keys())
    }
}

/// The keys of an object in order.
#[derive(Debug, Clone)]
pub struct Keys<'a>(Either<'a>);

#[derive(Debug, Clone)]
enum Either<'a> {
    Few(std::slice::Iter<'a, Text>),
    Many(indexmap::set::Iter<'a, Text>),
}

impl<'a> Iterator for Keys<'a> {
    type Item = &'a Text;

    #[inline]
    fn next(&mut self) -> Option<&'a Text> {
        match &mut self.0 {
            Either::Few(keys) => keys.next(),
            Either::Many(keys) => keys.next(),
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        match &self.0 {
            Either::Few(keys) => keys.size_hint(),
            Either::Many(keys) => keys.size_hint(),
        }
    }
}

impl DoubleEndedIterator for Keys<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        match &mut self.0 {
            Either::Few(keys) => keys.next_back(),
            Either::Many(keys) => keys.next_back(),
        }
    }
}

impl ExactSizeIterator for Keys<'_> {}

/// The shapes seen so far, as a tree of beginnings: an object that has come before costs one comparison per key, and
/// no allocation. What the tree remembers is bounded.
#[derive(Debug)]
pub(super) struct Shapes {
    nodes: Vec<Node>,
    /// Something could not be remembered.
    full: bool,
}

#[derive(Debug, Default)]
struct Node {
    key: Text,
    parent: u32,
    len: u32,
    /// The child that came last.
    likely: u32,
    children: Vec<u32>,
    shape: Option<Shape>,
}

/// The reader's position in a known object.
#[derive(Debug, Clone, Copy)]
pub(super) struct Beginning(u32);

const NONE: u32 = u32::MAX;

thread_local! {
    /// Those that this thread has seen: objects of one kind share their keys wherever they are made or read.
    static SHAPES: Cell<Option<Shapes>> = const { Cell::new(None) };
}

impl Shapes {
    pub(super) fn new() -> Self {
        Self { nodes: vec![Node { likely: NONE, parent: NONE, ..Node::default() }], full: false }
    }

    /// Those that this thread has seen. Whoever takes them gives them back.
    pub(super) fn take() -> Self {
        SHAPES.take().unwrap_or_else(Self::new)
    }

    /// For whatever this thread makes next, unless there is no room for more.
    pub(super) fn give_back(self) {
        if !self.full && self.nodes.len() < MAX_NODES / 2 {
            SHAPES.set(Some(self));
        }
    }

    /// The shape with these keys; `None` where one is there twice, or they are not worth remembering.
    fn of_keys<'a>(&mut self, keys: impl Iterator<Item = &'a str>) -> Option<Shape> {
        let mut at = Self::start();
        for key in keys {
            at = self.next(at, key)?;
        }
        Some(self.shape(at))
    }

    pub(super) fn start() -> Beginning {
        Beginning(0)
    }

    /// The beginning with one more key; `None` where it is not worth remembering, or the key is there already.
    pub(super) fn next(&mut self, at: Beginning, key: &str) -> Option<Beginning> {
        let node = self.nodes.get(at.0 as usize)?;
        if let Some(likely) = self.nodes.get(node.likely as usize)
            && likely.key.as_bytes() == key.as_bytes()
        {
            return Some(Beginning(node.likely));
        }
        let known =
            node.children.iter().copied().find(|child| {
                self.nodes.get(*child as usize).is_some_and(|child| child.key.as_bytes() == key.as_bytes())
            });
        let child = match known {
            Some(child) => child,
            None => self.add(at, key)?,
        };
        self.nodes.get_mut(at.0 as usize)?.likely = child;
        Some(Beginning(child))
    }

    fn add(&mut self, at: Beginning, key: &str) -> Option<u32> {
        let node = self.nodes.get(at.0 as usize)?;
        let len = node.len + 1;
        if self.nodes.len() >= MAX_NODES || node.children.len() >= MAX_BRANCHES {
            self.full = true;
            return None;
        }
        if len as usize > MAX_ROW || self.path(at).any(|before| before.as_bytes() == key.as_bytes()) {
            return None;
        }
        let child = u32::try_from(self.nodes.len()).ok()?;
        self.nodes.push(Node { key: key.into(), parent: at.0, len, likely: NONE, ..Node::default() });
        self.nodes.get_mut(at.0 as usize)?.children.push(child);
        Some(child)
    }

    /// The keys up to a beginning, the last one first.
    pub(super) fn path(&self, at: Beginning) -> impl Iterator<Item = &Text> {
        let mut at = at.0;
        std::iter::from_fn(move || {
            let node = self.nodes.get(at as usize).filter(|node| node.len > 0)?;
            at = node.parent;
            Some(&node.key)
        })
    }

    /// The shape of an object that ends here.
    pub(super) fn shape(&mut self, at: Beginning) -> Shape {
        if let Some(shape) = self.nodes.get(at.0 as usize).and_then(|node| node.shape.clone()) {
            return shape;
        }
        let mut keys: Vec<Text> = self.path(at).cloned().collect();
        keys.reverse();
        let shape = match Shape::new_of(keys) {
            Distinct::All(shape) | Distinct::Merged(shape, _) => shape,
        };
        if let Some(node) = self.nodes.get_mut(at.0 as usize) {
            node.shape = Some(shape.clone());
        }
        shape
    }
}

/// Puts values where [`Distinct::Merged`] says; the last of two values with the same key counts.
pub(super) fn merge(values: impl Iterator<Item = Value>, places: &[usize], len: usize) -> Vec<Value> {
    let mut merged = vec![Value::Undefined; len];
    for (value, place) in values.zip(places) {
        if let Some(slot) = merged.get_mut(*place) {
            *slot = value;
        }
    }
    merged
}
