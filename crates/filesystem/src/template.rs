//! Arguments with quantities of the geometry in them: `stride={stride_blocks}`.

use crate::conditions::{Conditions, OptionRequirement};
pub use crate::quantity::{QuantityError, VARIABLES, Variable};

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Text(String),
    Quantity(Variable),
}

/// An argument, with or without quantities in braces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template(Vec<Piece>);

impl Template {
    /// Reads an argument as the catalog writes it.
    ///
    /// # Errors
    /// A text for the user, when a name in braces is unknown or a brace has no partner.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('{') {
            let (name, behind) =
                after.split_once('}').ok_or_else(|| format!("`{text}` has a `{{` without `}}`"))?;
            if !before.is_empty() {
                pieces.push(Piece::Text(before.to_owned()));
            }
            pieces.push(Piece::Quantity(lookup(name)?));
            rest = behind;
        }
        if rest.contains('}') {
            return Err(format!("`{text}` has a `}}` without `{{`"));
        }
        if !rest.is_empty() {
            pieces.push(Piece::Text(rest.to_owned()));
        }
        Ok(Self(pieces))
    }

    /// What must be known for it to be filled.
    pub fn needs(&self) -> impl Iterator<Item = OptionRequirement> + '_ {
        self.variables().filter_map(Variable::need)
    }

    /// The quantities that it names, in order.
    pub fn variables(&self) -> impl Iterator<Item = Variable> + '_ {
        self.0.iter().filter_map(|piece| match piece {
            Piece::Text(_) => None,
            Piece::Quantity(variable) => Some(*variable),
        })
    }

    /// The argument for a file system with this block under these conditions.
    ///
    /// # Errors
    /// See [`QuantityError`].
    pub fn fill(&self, block_bytes: u64, conditions: &Conditions) -> Result<String, QuantityError> {
        self.0
            .iter()
            .map(|piece| match piece {
                Piece::Text(text) => Ok(text.clone()),
                Piece::Quantity(variable) => {
                    variable.value_under(block_bytes, conditions).map(|value| value.to_string())
                }
            })
            .collect()
    }
}

fn lookup(name: &str) -> Result<Variable, String> {
    let names = || VARIABLES.iter().map(|(known, _)| *known);
    VARIABLES.iter().find(|(known, _)| *known == name).map(|(_, variable)| *variable).ok_or_else(
        || match flashfit_catalog::nearest(name, names()) {
            Some(nearest) => {
                format!("unknown quantity `{{{name}}}`; did you mean `{{{nearest}}}`?")
            }
            None => format!(
                "unknown quantity `{{{name}}}`; known are {}",
                names().collect::<Vec<_>>().join(", ")
            ),
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_name_gets_the_nearest_one() {
        let error = Template::parse("stride={stride_block}").unwrap_err();
        assert!(error.contains("`{stride_blocks}`"), "{error}");
        assert!(Template::parse("a{").is_err());
        assert!(Template::parse("a}").is_err());
    }
}
