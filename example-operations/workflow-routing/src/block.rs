//! Complete blocks: a start line, one line for each field in order, an end line.

use crate::text;

/// What a block looks like.
pub struct Shape<'a> {
    pub start: &'a str,
    /// What the line of each field begins with.
    pub prefixes: &'a [String],
    pub end: &'a str,
}

impl Shape<'_> {
    /// The values of every complete block, in order. Blocks that are not complete are passed over.
    pub fn blocks<'t>(&self, content: &'t str) -> Vec<Vec<&'t str>> {
        let lines: Vec<&str> = content.lines().collect();
        let starts = lines.iter().enumerate().filter(|(_, line)| **line == self.start);
        starts.filter_map(|(index, _)| self.block(lines.get(index + 1..).unwrap_or_default())).collect()
    }

    fn block<'t>(&self, after_start: &[&'t str]) -> Option<Vec<&'t str>> {
        let (fields, rest) = after_start.split_at_checked(self.prefixes.len())?;
        if rest.first() != Some(&self.end) {
            return None;
        }
        let value = |(prefix, line): (&String, &&'t str)| {
            line.strip_prefix(prefix.as_str()).filter(|value| !text::is_blank(value))
        };
        self.prefixes.iter().zip(fields).map(value).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(content: &str) -> Vec<Vec<&str>> {
        let prefixes = ["who: ".to_owned(), "why: ".to_owned()];
        Shape { start: "<<", prefixes: &prefixes, end: ">>" }.blocks(content)
    }

    #[test]
    fn a_block_is_complete_with_every_field_in_order_and_its_end() {
        assert_eq!(blocks("x\n<<\nwho: me\nwhy:  need\n>>\ny"), [["me", " need"]]);
    }

    #[test]
    fn an_incomplete_block_is_passed_over() {
        for content in [
            "<<\nwho: me\n>>",
            "<<\nwhy: need\nwho: me\n>>",
            "<<\nwho: me\nwhy:  \n>>",
            "<<\nwho: me\nwhy: need",
            " <<\nwho: me\nwhy: need\n>>",
            "<<\nwho: me\nwhy: need\nmore\n>>",
        ] {
            assert!(blocks(content).is_empty(), "{content:?}");
        }
    }

    #[test]
    fn a_later_block_stands_after_a_broken_one() {
        assert_eq!(blocks("<<\nwho: me\n<<\nwho: you\nwhy: need\n>>"), [["you", "need"]]);
    }
}
