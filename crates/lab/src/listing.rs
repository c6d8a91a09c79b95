//! Parses lists of places and reservations as printed by `labgrid-client`.
//!
//! Source: `Place.show` and `Reservation.show` in labgrid's `remote/common.py`. Lines of a
//! multiline comment may look like fields; the real fields follow it, so the last match applies.

use std::collections::BTreeMap;

use crate::owner::Owner;

/// A place of the lab: usually one board with its resources.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabPlace {
    pub name: String,
    pub tags: BTreeMap<String, String>,
    /// Owner of the lock, as `HOST/USER`.
    pub locked_by: Option<String>,
    /// The reservation it is allocated to.
    pub(crate) reservation: Option<String>,
}

impl LabPlace {
    /// Whether it is neither locked nor reserved.
    pub fn is_free(&self) -> bool {
        self.locked_by.is_none() && self.reservation.is_none()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReservationState {
    /// No place is free yet.
    Waiting,
    /// A place is allocated to it, or already locked.
    Allocated,
    /// Expired, or its place was removed.
    Ended,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ListedReservation {
    pub(crate) token: String,
    /// As `HOST/USER`.
    pub(crate) owner: String,
    pub(crate) state: ReservationState,
    pub(crate) place: Option<String>,
}

impl ListedReservation {
    pub(crate) fn is_of(&self, owner: &Owner) -> bool {
        self.owner == owner.to_string()
    }
}

/// Parses the output of `labgrid-client -v places`.
pub(crate) fn places(text: &str) -> Vec<LabPlace> {
    blocks(text, "Place '").iter().map(|block| block.place()).collect()
}

/// Parses the output of `labgrid-client reservations` and `reserve`.
pub(crate) fn reservations(text: &str) -> Vec<ListedReservation> {
    blocks(text, "Reservation '").iter().filter_map(Block::reservation).collect()
}

/// Parses the output of `labgrid-client wait`, which repeats the reservation; returns the last one.
pub(crate) fn last_of_wait(text: &str) -> Option<ListedReservation> {
    let mut last = Block { name: String::new(), lines: Vec::new() };
    for line in text.lines() {
        if line.starts_with("owner: ") {
            last.lines.clear();
        }
        last.lines.push(line);
    }
    last.reservation()
}

/// The quoted name of a heading, and the lines below it without their first indentation.
struct Block<'a> {
    name: String,
    lines: Vec<&'a str>,
}

fn blocks<'a>(text: &'a str, heading: &str) -> Vec<Block<'a>> {
    let mut blocks: Vec<Block<'a>> = Vec::new();
    for line in text.lines() {
        let name = line.strip_prefix(heading).and_then(|rest| rest.strip_suffix("':"));
        if let Some(name) = name {
            blocks.push(Block { name: name.to_owned(), lines: Vec::new() });
        } else if let (Some(block), Some(field)) = (blocks.last_mut(), line.strip_prefix("  ")) {
            block.lines.push(field);
        }
    }
    blocks
}

impl Block<'_> {
    fn field(&self, key: &str) -> Option<&str> {
        let value = |line: &&str| -> Option<usize> {
            line.strip_prefix(key)?.strip_prefix(": ").map(|value| line.len() - value.len())
        };
        let last = self.lines.iter().rev().find(|line| value(line).is_some())?;
        value(last).map(|start| last[start..].trim())
    }

    fn place(&self) -> LabPlace {
        let tags = self.field("tags").unwrap_or_default().split(", ");
        let pair =
            |tag: &str| tag.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned()));
        LabPlace {
            name: self.name.clone(),
            tags: tags.filter_map(pair).collect(),
            locked_by: self.field("acquired").filter(|&by| by != "None").map(str::to_owned),
            reservation: self.field("reservation").map(str::to_owned),
        }
    }

    fn reservation(&self) -> Option<ListedReservation> {
        let state = match self.field("state")? {
            "waiting" => ReservationState::Waiting,
            "allocated" | "acquired" => ReservationState::Allocated,
            _ => ReservationState::Ended,
        };
        // Filters have a line "  main: …" too, before that of the allocations.
        let after = self.lines.iter().position(|&line| line == "allocations:");
        let place = after.and_then(|at| self.lines.get(at + 1)?.trim().strip_prefix("main: "));
        Some(ListedReservation {
            token: self.field("token")?.to_owned(),
            owner: self.field("owner")?.to_owned(),
            state,
            place: place.map(str::to_owned),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACES: &str = "\
Place 'board1':
  comment: a comment: with tags: x=y
  acquired: me
  tags: media=sd, nr=1, pool=pf
  matches:
    rack1/board1/*
  acquired: bench.flashfit-abcd/alice
  acquired resources:
    rack1/board1/NetworkPowerPort/NetworkPowerPort
  created: 2026-11-22 03:50:00.336950
  changed: 2026-11-22 03:50:07.511762
  reservation: RG2X9MVPVR
Place 'board2':
  matches:
    rack1/board2/*
  acquired: None
  acquired resources:
  created: 2026-11-22 03:50:02.166739
  changed: 2026-11-22 03:50:03.273342
";

    const RESERVATION: &str = "\
Reservation 'RG2X9MVPVR':
  owner: bench.flashfit-abcd/alice
  token: RG2X9MVPVR
  state: allocated
  filters:
    main: pool=pf nr=1
  allocations:
    main: board1
  created: 2026-11-22 03:50:06.148540
  timeout: 2026-11-22 03:51:06.148612
";

    #[test]
    fn places_are_parsed_with_tags_and_owner() {
        let places = places(PLACES);
        assert_eq!(places.len(), 2);
        assert_eq!(places[0].name, "board1");
        assert_eq!(places[0].tags.len(), 3);
        assert_eq!(places[0].tags["media"], "sd");
        assert_eq!(places[0].locked_by.as_deref(), Some("bench.flashfit-abcd/alice"));
        assert_eq!(places[0].reservation.as_deref(), Some("RG2X9MVPVR"));
        assert!(places[1].tags.is_empty());
        assert!(places[1].is_free() && !places[0].is_free());
    }

    #[test]
    fn an_allocated_reservation_has_a_place() {
        let given = &reservations(RESERVATION)[0];
        assert_eq!(
            (given.token.as_str(), given.state),
            ("RG2X9MVPVR", ReservationState::Allocated)
        );
        assert_eq!(given.place.as_deref(), Some("board1"));
        let owner = Owner { host: "bench.flashfit-abcd".into(), user: "alice".into() };
        assert!(given.is_of(&owner));
        assert!(!given.is_of(&Owner { user: "bob".into(), ..owner }));
        let waiting = RESERVATION
            .replace("allocated", "waiting")
            .replace("  allocations:\n    main: board1\n", "");
        let waiting = &reservations(&waiting)[0];
        assert_eq!((waiting.state, &waiting.place), (ReservationState::Waiting, &None));
    }

    #[test]
    fn the_last_state_of_a_wait_applies() {
        let once = |state: &str| {
            let text = RESERVATION.replace("allocated", state);
            text.lines().skip(1).map(|line| format!("{}\n", &line[2..])).collect::<String>()
        };
        let text = once("waiting") + &once("allocated");
        assert_eq!(last_of_wait(&text).unwrap().state, ReservationState::Allocated);
        assert_eq!(last_of_wait(&once("expired")).unwrap().state, ReservationState::Ended);
        assert_eq!(last_of_wait(""), None);
    }
}
