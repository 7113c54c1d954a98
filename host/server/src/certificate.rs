//! The end of a certificate's validity, read from its file: a server whose certificate has expired is refused by its
//! clients, and says so itself.
//!
//! Reads as much of DER as leads there: the file is the operator's, and what cannot be read has no end.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use jiff::{Timestamp, civil::DateTime, tz::TimeZone};

const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
const END: &str = "-----END CERTIFICATE-----";

const INTEGER: u8 = 0x02;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;

/// The moment after which the first certificate of a PEM file is no longer valid.
pub(crate) fn valid_until(pem: &str) -> Option<Timestamp> {
    let text = pem.split_once(BEGIN)?.1.split_once(END)?.0;
    let text: String = text.chars().filter(|c| !c.is_ascii_whitespace()).collect();
    not_after(&STANDARD.decode(text).ok()?)
}

fn not_after(der: &[u8]) -> Option<Timestamp> {
    let (certificate, _) = value(der, SEQUENCE)?;
    let (signed, _) = value(certificate, SEQUENCE)?;
    let rest = value(signed, VERSION).map_or(signed, |(_, rest)| rest);
    let (_, rest) = value(rest, INTEGER)?;
    // The algorithm of the signature, and the issuer.
    let (_, rest) = value(rest, SEQUENCE)?;
    let (_, rest) = value(rest, SEQUENCE)?;
    let (validity, _) = value(rest, SEQUENCE)?;
    let (_, rest) = time(validity)?;
    time(rest).map(|(end, _)| end)
}

/// The content of the first value, if it has this tag, and what follows it.
fn value(der: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (&found, rest) = der.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        0x81..=0x84 => {
            let (bytes, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            (bytes.iter().fold(0_usize, |length, byte| (length << 8) | usize::from(*byte)), rest)
        }
        _ => return None,
    };
    rest.split_at_checked(length).filter(|_| found == tag)
}

/// A moment, and what follows it: `YYMMDDHHMMSSZ` until 2049, else with four digits of the year.
fn time(der: &[u8]) -> Option<(Timestamp, &[u8])> {
    let (text, rest, digits) = match value(der, UTC_TIME) {
        Some((text, rest)) => (text, rest, 2),
        None => value(der, GENERALIZED_TIME).map(|(text, rest)| (text, rest, 4))?,
    };
    let text = std::str::from_utf8(text).ok()?.strip_suffix('Z')?;
    let (year, text) = text.split_at_checked(digits)?;
    let year: i16 = year.parse().ok()?;
    let year = match digits {
        2 if year < 50 => year + 2000,
        2 => year + 1900,
        _ => year,
    };
    let part = |at: usize| text.get(at..at + 2)?.parse::<i8>().ok();
    let moment = DateTime::new(year, part(0)?, part(2)?, part(4)?, part(6)?, part(8)?, 0).ok()?;
    Some((TimeZone::UTC.to_timestamp(moment).ok()?, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Made with `openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -days 1`.
    const OF_A_DAY: &str = "-----BEGIN CERTIFICATE-----
MIIBfTCCASOgAwIBAgIUbeAZ9paouvASJmio0omf9TSxY9AwCgYIKoZIzj0EAwIw
FDESMBAGA1UEAwwJbG9jYWxob3N0MB4XDTI2MTEyODExNTIwN1oXDTI2MTEyOTEx
NTIwN1owFDESMBAGA1UEAwwJbG9jYWxob3N0MFkwEwYHKoZIzj0CAQYIKoZIzj0D
AQcDQgAEcPKCKpxySETMZasVw1+GZ1Cn92Fjns7H6jXPy9zKxt6UzKxw9Ad+u/sQ
BCgDVI8b5Mx/vOTq2cEcPDN0S6/H86NTMFEwHQYDVR0OBBYEFBTBw3sQkRvL3I++
Nedl0MU1Gu5/MB8GA1UdIwQYMBaAFBTBw3sQkRvL3I++Nedl0MU1Gu5/MA8GA1Ud
EwEB/wQFMAMBAf8wCgYIKoZIzj0EAwIDSAAwRQIgCDq8ISAjJPyzy+LwyLA1nz2Y
WGNXUEMSA2K0HUfM8uECIQD06Qs18OjOaIue6CMJDb6Fr44i9u+KzQrKPQHWI/lz
Zg==
-----END CERTIFICATE-----
";

    #[test]
    fn the_end_of_a_certificate_is_read_from_its_file() {
        assert_eq!(valid_until(OF_A_DAY).unwrap().to_string(), "2026-11-29T11:52:07Z");
        assert_eq!(valid_until(&format!("# ours\n{OF_A_DAY}{OF_A_DAY}")), valid_until(OF_A_DAY));
        assert_eq!(valid_until("-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----"), None);
        assert_eq!(valid_until(""), None);
    }

    #[test]
    fn a_file_that_is_cut_or_changed_anywhere_has_an_end_or_none_and_nothing_else() {
        let text: String = OF_A_DAY.lines().filter(|line| !line.starts_with('-')).collect();
        let der = STANDARD.decode(text).unwrap();
        let end = not_after(&der);
        for at in 0..der.len() {
            assert!(not_after(&der[..at]).is_none_or(|found| Some(found) == end));
            for byte in [0x00, 0x30, 0x80, 0x84, 0xff] {
                let mut changed = der.clone();
                changed[at] = byte;
                let _ = not_after(&changed);
            }
        }
        let years =
            |text: &str| time(&[&[UTC_TIME, 13], text.as_bytes()].concat()).map(|(moment, _)| moment.to_string());
        assert_eq!(years("490101000000Z").as_deref(), Some("2049-01-01T00:00:00Z"));
        assert_eq!(years("500101000000Z").as_deref(), Some("1950-01-01T00:00:00Z"));
        assert_eq!(years("501301000000Z"), None);
        let later = [&[GENERALIZED_TIME, 15], b"20510203040506Z".as_slice()].concat();
        assert_eq!(time(&later).map(|(moment, _)| moment.to_string()).as_deref(), Some("2051-02-03T04:05:06Z"));
    }
}
