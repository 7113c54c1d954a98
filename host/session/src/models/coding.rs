//! Bodies in gzip, decompressed while they come.

use super::answer::{Fault, MAX_ANSWER_BYTES};
use flate2::write::MultiGzDecoder;
use std::borrow::Cow;
use std::io::{self, Write};

/// The encoding of a body.
pub(super) enum Coding {
    /// They are the answer.
    None,
    /// They are in gzip, in one member or several that follow each other.
    Gzip { decoder: Box<MultiGzDecoder<Bounded>>, length: usize },
}

impl Coding {
    /// The coding that a response's header names: gzip, under either of its names, and nothing else. Servers write other
    /// words there, such as `utf-8`, which change nothing.
    pub(super) fn of(header: Option<&str>) -> Result<Self, Fault> {
        const OTHERS: [&str; 5] = ["br", "deflate", "zstd", "compress", "x-compress"];
        let named: Vec<&str> = header.unwrap_or_default().split(',').map(str::trim).collect();
        let count = |names: &[&str]| {
            named.iter().filter(|found| names.iter().any(|name| found.eq_ignore_ascii_case(name))).count()
        };
        match (count(&["gzip", "x-gzip"]), count(&OTHERS)) {
            (0, 0) => Ok(Self::None),
            (1, 0) => Ok(Self::Gzip { decoder: Box::new(MultiGzDecoder::new(Bounded::default())), length: 0 }),
            _ => {
                let header = opcell_types::text::printable(header.unwrap_or_default(), 100);
                Err(Fault::malformed(format!("it is encoded as `{header}`, and only gzip was asked for")))
            }
        }
    }

    /// The bytes behind the next bytes of a body.
    pub(super) fn read<'b>(&mut self, bytes: &'b [u8]) -> Result<Cow<'b, [u8]>, Fault> {
        let Self::Gzip { decoder, length } = self else { return Ok(bytes.into()) };
        *length += bytes.len();
        let done = decoder.write_all(bytes).and_then(|()| decoder.flush());
        let found = decoder.get_mut();
        match done {
            Ok(()) => Ok(std::mem::take(&mut found.bytes).into()),
            Err(_) if found.is_full => Err(Fault::too_large()),
            Err(_) => Err(broken()),
        }
    }

    /// Checks that the body did not end too early.
    pub(super) fn end(self) -> Result<(), Fault> {
        match self {
            Self::Gzip { mut decoder, length: 1.. } => decoder.try_finish().map_err(|_| Fault::cut()),
            _ => Ok(()),
        }
    }
}

fn broken() -> Fault {
    Fault::unavailable("its body is damaged: it is not the gzip that its header says")
}

/// The bytes that came out of one piece of a body: no more than an answer may have.
#[derive(Debug, Default)]
pub(super) struct Bounded {
    bytes: Vec<u8>,
    is_full: bool,
}

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.bytes.len() + bytes.len() > MAX_ANSWER_BYTES {
            self.is_full = true;
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::Coding;
    use flate2::{Compression, write::GzEncoder};
    use std::io::Write as _;

    fn gzip(text: &str) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(text.as_bytes()).unwrap();
        encoder.finish().unwrap()
    }

    /// The text of a body that is given in pieces of a size.
    fn read(body: &[u8], size: usize) -> Result<String, &'static str> {
        let mut coding = Coding::of(Some("X-Gzip")).unwrap();
        let mut found = Vec::new();
        for piece in body.chunks(size) {
            found.extend_from_slice(&coding.read(piece).map_err(|fault| fault.reason)?);
        }
        coding.end().map_err(|fault| fault.reason)?;
        Ok(String::from_utf8(found).unwrap())
    }

    #[test]
    fn gzip_is_read_in_pieces_of_every_size_and_in_several_members() {
        let members = [gzip("Hello, "), gzip(""), gzip(&"world ".repeat(20_000))].concat();
        for size in [1, 7, members.len()] {
            assert_eq!(read(&members, size).unwrap(), format!("Hello, {}", "world ".repeat(20_000)), "{size}");
        }
        assert_eq!(read(b"", 1), Ok(String::new()));
    }

    #[test]
    fn what_was_compressed_before_a_flush_is_there_before_the_end() {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(b"data: 1\n\n").unwrap();
        encoder.flush().unwrap();
        let mut coding = Coding::of(Some("gzip")).unwrap();
        assert_eq!(coding.read(encoder.get_ref()).unwrap().as_ref(), b"data: 1\n\n");
    }

    #[test]
    fn a_body_that_is_cut_or_damaged_may_be_asked_for_again() {
        let body = gzip("Hello, world");
        for end in 1..body.len() {
            assert_eq!(read(body.get(..end).unwrap(), 5), Err("provider-unavailable"), "cut at {end}");
        }
        let mut damaged = body;
        *damaged.get_mut(12).unwrap() ^= 0xff;
        assert_eq!(read(&damaged, 5), Err("provider-unavailable"));
        assert_eq!(read(b"{\"choices\": []}", 5), Err("provider-unavailable"));
    }

    #[test]
    fn codings_are_named_in_any_case_and_what_changes_nothing_is_passed_over() {
        for none in [None, Some(""), Some("identity"), Some("utf-8"), Some("aws-chunked")] {
            assert!(matches!(Coding::of(none), Ok(Coding::None)), "{none:?}");
        }
        for gzip in ["gzip", "GZIP", "x-gzip", "identity, gzip"] {
            assert!(matches!(Coding::of(Some(gzip)), Ok(Coding::Gzip { .. })), "{gzip}");
        }
        for other in ["br", "Deflate", "gzip, br", "gzip, gzip"] {
            assert!(Coding::of(Some(other)).is_err(), "{other}");
        }
    }
}
