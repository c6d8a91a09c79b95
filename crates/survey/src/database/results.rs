//! Reads the results of all sources.

use std::collections::HashMap;

use super::SurveyDatabase;
use crate::bundle::BundleKeys;
use crate::error::SurveyError;
use crate::import::is_command_name;
use crate::record::{MeasuredSetup, SurveyMeasure, SurveyValue};

/// A figure of a source; setup and measure are indexes into the table.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StoredResult {
    pub source: i64,
    pub setup: usize,
    pub measure: usize,
    pub value: SurveyValue,
}

/// Figures with what they are of, each named once.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ResultTable {
    pub setups: Vec<MeasuredSetup>,
    pub measures: Vec<SurveyMeasure>,
    /// Sorted by source.
    pub rows: Vec<StoredResult>,
}

impl ResultTable {
    /// Replaces the names of commands as bundles of the survey do: their hashes can be found by
    /// trying commands.
    pub fn hide_commands(&mut self, keys: &BundleKeys) {
        for measure in &mut self.measures {
            if is_command_name(&measure.workload) {
                measure.workload = keys.hidden(&measure.workload);
            }
        }
    }

    /// The figures of a source.
    pub fn of_source(&self, source: i64) -> &[StoredResult] {
        let start = self.rows.partition_point(|row| row.source < source);
        let end = self.rows.partition_point(|row| row.source <= source);
        &self.rows[start..end]
    }
}

impl SurveyDatabase {
    /// All results.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn results(&self) -> Result<ResultTable, SurveyError> {
        self.read_results().map_err(|error| self.failed(&error))
    }

    fn read_results(&self) -> rusqlite::Result<ResultTable> {
        let reading = self.connection.unchecked_transaction()?;
        let mut table = ResultTable::default();
        let mut setups: HashMap<i64, usize> = HashMap::new();
        let mut query = reading
            .prepare("SELECT id, filesystem, options, scheduler FROM setup ORDER BY 2, 3, 4")?;
        let mut rows = query.query([])?;
        while let Some(row) = rows.next()? {
            setups.insert(row.get(0)?, table.setups.len());
            table.setups.push(MeasuredSetup {
                filesystem: row.get(1)?,
                options: row.get(2)?,
                scheduler: row.get(3)?,
            });
        }
        let mut measures: HashMap<i64, usize> = HashMap::new();
        let mut query = reading.prepare(
            "SELECT id, metric, unit, workload, point, stage, direction, length FROM measure
             ORDER BY 4, 5, 6, 7, 2, 3, 8",
        )?;
        let mut rows = query.query([])?;
        while let Some(row) = rows.next()? {
            measures.insert(row.get(0)?, table.measures.len());
            table.measures.push(SurveyMeasure {
                metric: row.get(1)?,
                unit: row.get(2)?,
                workload: row.get(3)?,
                point: row.get(4)?,
                stage: row.get(5)?,
                direction: row.get(6)?,
                length: row.get(7)?,
            });
        }
        let mut query = reading.prepare(
            "SELECT source, setup, measure, value, low, high, count, confidence FROM result
             ORDER BY source",
        )?;
        let mut rows = query.query([])?;
        while let Some(row) = rows.next()? {
            let named = (setups.get(&row.get(1)?), measures.get(&row.get(2)?));
            let (Some(setup), Some(measure)) = named else { continue };
            table.rows.push(StoredResult {
                source: row.get(0)?,
                setup: *setup,
                measure: *measure,
                value: SurveyValue {
                    value: row.get(3)?,
                    low: row.get(4)?,
                    high: row.get(5)?,
                    count: row.get(6)?,
                    confidence: row.get(7)?,
                },
            });
        }
        Ok(table)
    }
}
