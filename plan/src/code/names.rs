//! The names of a packet or code that are not in the table, each by its place in the order of first use.
//!
//! Few are looked through; of many there is an index, so that finding one costs the same however many there are: a packet has room for
//! ten thousand.

use crate::name::Name;
use std::collections::HashMap;

/// So many are looked through.
const FEW: usize = 16;

/// Names in the order of their first use.
#[derive(Debug, Default)]
pub(crate) struct Names {
    list: Vec<Name>,
    /// The place of each, once there are more than a few.
    places: HashMap<Name, usize>,
}

impl Names {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// The name at a place.
    pub fn get(&self, place: usize) -> Option<&Name> {
        self.list.get(place)
    }

    /// The place of a name.
    pub fn place(&self, name: &Name) -> Option<usize> {
        if self.places.is_empty() {
            return self.list.iter().position(|known| known == name);
        }
        self.places.get(name).copied()
    }

    /// Adds a name; false if it is there.
    pub fn add(&mut self, name: &Name) -> bool {
        if self.place(name).is_some() {
            return false;
        }
        self.list.push(name.clone());
        if !self.places.is_empty() {
            self.places.insert(name.clone(), self.list.len() - 1);
        } else if self.list.len() > FEW {
            self.places = self.list.iter().cloned().zip(0..).collect();
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_its_place_however_many_there_are() {
        let name = |number: usize| Name::new(&format!("n{number}")).unwrap();
        let mut names = Names::default();
        for number in 0..3 * FEW {
            assert_eq!(names.place(&name(number)), None);
            assert!(names.add(&name(number)) && !names.add(&name(number)));
            assert_eq!(names.places.len(), if number < FEW { 0 } else { number + 1 }, "an index of many");
            assert!((0..=number).all(|known| names.place(&name(known)) == Some(known)));
            assert_eq!((names.len(), names.get(number)), (number + 1, Some(&name(number))));
        }
    }
}
