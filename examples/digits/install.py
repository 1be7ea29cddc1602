"""The arena's `setup`: installs scikit-learn, then removes the digits that it bundles.

The labels that train.py is to predict stand in that file; without it, nothing in the environment knows them.
"""

import importlib.util
import subprocess
import sys
from pathlib import Path

subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "-r", "requirements.txt"], check=True)
package = importlib.util.find_spec("sklearn")
for bundled in Path(package.origin).parent.glob("datasets/data/digits.csv*"):
    bundled.unlink()
    print(f"removed {bundled.name}")
