//! One Parquet file: rows are given value by value, in the order of its columns.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::builder::{BooleanBuilder, Float64Builder, Int64Builder, StringBuilder};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Schema};
use flashfit_host::durable;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, GzipLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;

use crate::SurveyExportError;

/// Rows that are kept in memory before they are written.
const BATCH_ROWS: usize = 1 << 16;
/// The version of the columns, in the metadata of each file.
const VERSION_KEY: &str = "flashfit.survey-export";
const VERSION: &str = "1";

/// What is in a column. All may be NULL but `Is`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExportColumnKind {
    /// An empty text is NULL.
    Text,
    Whole,
    Number,
    Is,
}

enum Column {
    Text(StringBuilder),
    Whole(Int64Builder),
    Number(Float64Builder),
    Is(BooleanBuilder),
}

impl Column {
    fn new(kind: ExportColumnKind) -> Self {
        match kind {
            ExportColumnKind::Text => Self::Text(StringBuilder::new()),
            ExportColumnKind::Whole => Self::Whole(Int64Builder::new()),
            ExportColumnKind::Number => Self::Number(Float64Builder::new()),
            ExportColumnKind::Is => Self::Is(BooleanBuilder::new()),
        }
    }

    fn take(&mut self) -> ArrayRef {
        match self {
            Self::Text(column) => Arc::new(column.finish()),
            Self::Whole(column) => Arc::new(column.finish()),
            Self::Number(column) => Arc::new(column.finish()),
            Self::Is(column) => Arc::new(column.finish()),
        }
    }
}

/// A file that is written.
pub struct TableFile {
    path: PathBuf,
    writer: ArrowWriter<File>,
    schema: Arc<Schema>,
    columns: Vec<Column>,
    /// The column of the next value.
    next: usize,
    rows: usize,
}

impl TableFile {
    /// The file of a product in the directory of a table.
    pub fn create(
        table: &Path,
        product: &str,
        columns: &[&[(&str, ExportColumnKind)]],
    ) -> Result<Self, SurveyExportError> {
        let folder = table.join(format!("product={product}"));
        let path = folder.join("part-0.parquet");
        let failed = |source| SurveyExportError::write(&path, source);
        std::fs::create_dir_all(&folder).map_err(failed)?;
        let columns: Vec<(&str, ExportColumnKind)> = columns.concat();
        let field = |(name, kind): &(&str, ExportColumnKind)| {
            let (of, is_nullable) = match kind {
                ExportColumnKind::Text => (DataType::Utf8, true),
                ExportColumnKind::Whole => (DataType::Int64, true),
                ExportColumnKind::Number => (DataType::Float64, true),
                ExportColumnKind::Is => (DataType::Boolean, false),
            };
            Field::new(*name, of, is_nullable)
        };
        let schema = Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()));
        let version = KeyValue::new(VERSION_KEY.to_owned(), VERSION.to_owned());
        let properties = WriterProperties::builder()
            .set_compression(Compression::GZIP(GzipLevel::default()))
            .set_key_value_metadata(Some(vec![version]))
            .build();
        let file = File::create_new(&path).map_err(failed)?;
        let writer = ArrowWriter::try_new(file, Arc::clone(&schema), Some(properties))
            .map_err(|error| unwritten(&path, error))?;
        let columns = columns.iter().map(|(_, kind)| Column::new(*kind)).collect();
        Ok(Self { path, writer, schema, columns, next: 0, rows: 0 })
    }

    pub fn text(&mut self, value: &str) {
        match self.column() {
            Column::Text(column) if value.is_empty() => column.append_null(),
            Column::Text(column) => column.append_value(value),
            _ => panic!("column {} has no texts", self.next - 1),
        }
    }

    /// A number that is too large for the format is left out.
    pub fn whole(&mut self, value: Option<u64>) {
        match self.column() {
            Column::Whole(column) => {
                column.append_option(value.and_then(|v| i64::try_from(v).ok()))
            }
            _ => panic!("column {} has no whole numbers", self.next - 1),
        }
    }

    pub fn number(&mut self, value: Option<f64>) {
        match self.column() {
            Column::Number(column) => column.append_option(value),
            _ => panic!("column {} has no numbers", self.next - 1),
        }
    }

    pub fn is(&mut self, value: bool) {
        match self.column() {
            Column::Is(column) => column.append_value(value),
            _ => panic!("column {} has no truth values", self.next - 1),
        }
    }

    fn column(&mut self) -> &mut Column {
        self.next += 1;
        &mut self.columns[self.next - 1]
    }

    /// Ends a row.
    pub fn end_row(&mut self) -> Result<(), SurveyExportError> {
        assert_eq!(self.next, self.columns.len(), "a row has all its columns");
        self.next = 0;
        self.rows += 1;
        if self.rows == BATCH_ROWS { self.write() } else { Ok(()) }
    }

    fn write(&mut self) -> Result<(), SurveyExportError> {
        self.rows = 0;
        let columns = self.columns.iter_mut().map(Column::take).collect();
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), columns);
        let batch = batch.expect("columns have the kinds of the schema");
        self.writer.write(&batch).map_err(|error| unwritten(&self.path, error))
    }

    /// Writes the rest, synced; returns the size of the file.
    pub fn finish(mut self) -> Result<u64, SurveyExportError> {
        self.write()?;
        let file = self.writer.into_inner().map_err(|error| unwritten(&self.path, error))?;
        let folder = self.path.parent().expect("it is in the directory of its product");
        file.sync_all()
            .and_then(|()| durable::sync_folder(folder))
            .and_then(|()| Ok(file.metadata()?.len()))
            .map_err(|source| SurveyExportError::write(self.path, source))
    }
}

/// The reason of the operating system, where there is one.
fn unwritten(path: &Path, error: ParquetError) -> SurveyExportError {
    let source = match error {
        ParquetError::External(error) => match error.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(error) => io::Error::other(error),
        },
        other => io::Error::other(other),
    };
    SurveyExportError::write(path, source)
}
