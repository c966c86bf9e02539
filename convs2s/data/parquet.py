"""One side of a parquet file, in the schemata of the Hugging Face hub (extra: hub, pyarrow).

Translation sets have a column ``translation`` with a field for each language, others two columns of text.
"""

from __future__ import annotations

from collections.abc import Iterator

from convs2s.data.lines import Part
from convs2s.errors import UserError

_BATCH = 10_000  # rows in memory


def column_values(part: Part) -> Iterator[str]:
    """The values of ``part.column``, or of the field ``translation.COLUMN``; line ends inside are spaces, null is "".

    Raises UserError for a damaged file or one without that column, and when pyarrow is not installed.
    """
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise UserError(f"{part.path}: .parquet files need pyarrow: pip install -e '.[hub]'") from None
    try:
        with pyarrow.parquet.ParquetFile(part.path) as file:
            names = [file.schema.column(i).path for i in range(len(file.schema))]
            wanted = next((name for name in (part.column, f"translation.{part.column}") if name in names), None)
            if wanted is None:
                raise UserError(
                    f"{part.path} has no column {part.column}, only {', '.join(names)};"
                    " give data.columns=[SOURCE,TARGET]"
                )
            for batch in file.iter_batches(_BATCH, columns=[wanted]):
                values = batch.column(0)
                if "." in wanted and part.column != wanted:
                    values = values.field(part.column)
                for value in values.to_pylist():
                    yield "" if value is None else str(value).replace("\n", " ")
    except pyarrow.ArrowException as error:
        raise UserError(f"{part.path}: damaged parquet file ({str(error).splitlines()[0]}); fetch it again") from None
    except OSError as error:
        raise UserError(f"{part.path}: cannot be read ({error.strerror or error})") from None
