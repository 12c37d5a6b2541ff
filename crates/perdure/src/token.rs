//! Replay tokens: one short word that repeats one power cut.
//!
//! A token is `p2-` and the base64url text of a deflated JSON object with a checksum in front: the
//! request as the user gave it, the cut, the build, and digests of the configuration and of everything
//! that the run reads, so that a replay against anything else is refused and not silently different.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use perdure_hardware::time::Cycles;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::reads::Reads;
use crate::request::{Prepared, Request};
use crate::version::{BUILD, TIMING};

const PREFIX: &str = "p2-";
/// What tokens began with that cannot be read any more.
const OLDER: &str = "p1-";
const LONGEST: usize = 1 << 20;

/// What a token says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Token {
    /// The request, without what concerns only the host.
    pub request: Request,
    /// The cut.
    pub at: u64,
    /// What torn writes leave.
    pub tear_seed: u64,
    /// When the machines that came back were cut.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub later_cuts: Vec<u64>,
    /// A checker decided how a resumed run ended; it is not named here.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub checked: bool,
    /// The configuration's hash.
    pub config_hash: String,
    /// A digest of each program's file and of standard input, as `Prepared::given` has them.
    pub given: Vec<Option<u32>>,
    /// Digests of what the run has read of its host.
    pub reads: Reads,
    /// The build that made it.
    pub build: String,
    /// Its timing version; 0 before there was one.
    #[serde(default)]
    pub timing: u32,
}

impl Token {
    /// Of a cut that this build makes, and of what the run reads of its host.
    pub(crate) fn of(
        request: Request,
        prepared: &Prepared,
        (at, tear_seed): (Cycles, u64),
        reads: Reads,
    ) -> Self {
        Self {
            request,
            at,
            tear_seed,
            later_cuts: Vec::new(),
            checked: prepared.check.is_some(),
            config_hash: prepared.config_hash.clone(),
            given: prepared.digests(),
            reads,
            build: BUILD.into(),
            timing: TIMING,
        }
    }

    /// As text.
    pub fn encode(&self) -> String {
        sealed(PREFIX, self)
    }

    /// Which of the programs and inputs that a request gives today is another one, in words.
    pub fn differs(&self, given: &[(String, Option<u32>)]) -> Option<String> {
        difference(&self.given, given)
    }

    /// The request to make that cut again, and no other one.
    pub fn again(&self) -> Request {
        Request {
            at: Some(self.at),
            tear_seed: Some(self.tear_seed),
            later_cuts: self.later_cuts.clone(),
            generations: Some(self.request.generations.unwrap_or(1)),
            ..self.request.clone()
        }
    }

    /// From text.
    pub fn decode(text: &str) -> Result<Self, Error> {
        if text.trim().starts_with(OLDER) {
            return Err(Error::Request(format!(
                "the token is of an older version, whose tokens begin with '{OLDER}'; cut again with this one"
            )));
        }
        let token: Self = unsealed(PREFIX, text)?;
        if token.timing != TIMING {
            return Err(Error::Request(format!(
                "the token is of timing version {}, made by build {}, and this build's is {TIMING}: there, the same cycle is another moment (CHANGELOG.md says what changed); cut again with this one",
                token.timing, token.build
            )));
        }
        Ok(token)
    }
}

/// A token with that mark that says something.
pub(crate) fn sealed(prefix: &str, said: &impl Serialize) -> String {
    let json = serde_json::to_vec(said).expect("plain data");
    let packed = miniz_oxide::deflate::compress_to_vec(&json, 9);
    let mut bytes = (twox_hash::XxHash3_64::oneshot(&packed) as u32)
        .to_le_bytes()
        .to_vec();
    bytes.extend_from_slice(&packed);
    format!("{prefix}{}", URL_SAFE_NO_PAD.encode(bytes))
}

/// What a token with that mark says.
pub(crate) fn unsealed<T: DeserializeOwned>(prefix: &str, text: &str) -> Result<T, Error> {
    let damaged = |what: &str| {
        Error::Request(format!(
            "the token is damaged ({what}); copy it whole, from '{prefix}' to its last character"
        ))
    };
    let body = text
        .trim()
        .strip_prefix(prefix)
        .ok_or_else(|| damaged("it does not begin with the mark"))?;
    let bytes = URL_SAFE_NO_PAD
        .decode(body)
        .map_err(|_| damaged("characters are wrong or missing"))?;
    let (seal, packed) = bytes
        .split_first_chunk::<4>()
        .ok_or_else(|| damaged("it is too short"))?;
    if u32::from_le_bytes(*seal) != twox_hash::XxHash3_64::oneshot(packed) as u32 {
        return Err(damaged("its checksum is wrong"));
    }
    let json = miniz_oxide::inflate::decompress_to_vec_with_limit(packed, LONGEST)
        .map_err(|_| damaged("its content does not unpack"))?;
    serde_json::from_slice(&json).map_err(|_| damaged("it is of another version"))
}

/// What is given today that is another one than then, in words.
pub(crate) fn difference(then: &[Option<u32>], given: &[(String, Option<u32>)]) -> Option<String> {
    let then = then.iter().chain(std::iter::repeat(&None));
    let differing = given.iter().zip(then).find(|((_, now), then)| now != *then);
    let ((name, now), then) = differing?;
    Some(match (now, then) {
        (None, _) => {
            format!("{name} is not found: replay the token in the folder where it was made")
        }
        (Some(_), None) => {
            format!("{name} is found on the host now, and was not when the token was made")
        }
        _ => format!("{name} has changed since the token was made"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_damage_is_noticed() {
        let token = Token {
            request: Request {
                program: vec!["a".into(), "b".into()],
                ..Request::default()
            },
            at: 12345,
            tear_seed: 7,
            later_cuts: vec![99],
            checked: true,
            config_hash: "x".into(),
            given: vec![Some(5), None],
            reads: Reads::default(),
            build: "z".into(),
            timing: TIMING,
        };
        let text = token.encode();
        assert_eq!(Token::decode(&text).unwrap(), token);
        for at in 0..text.len() {
            let mut damaged = text.clone().into_bytes();
            damaged[at] = if damaged[at] == b'A' { b'B' } else { b'A' };
            let damaged = String::from_utf8(damaged).unwrap();
            if let Ok(decoded) = Token::decode(&damaged) {
                // The last character may hold bits that base64 does not use.
                assert_eq!(decoded, token, "damage at {at} went unnoticed");
            }
        }
        assert!(Token::decode(&text[..text.len() - 4]).is_err());
        assert!(Token::decode("").is_err());
        let old = text.replacen(PREFIX, OLDER, 1);
        let refused = Token::decode(&old).unwrap_err().to_string();
        assert!(refused.contains("older version"), "{refused}");
        let other = Token {
            timing: TIMING + 1,
            ..token
        };
        let refused = Token::decode(&other.encode()).unwrap_err().to_string();
        assert!(refused.contains("timing version"), "{refused}");
    }
}
