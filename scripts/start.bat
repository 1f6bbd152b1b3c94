@echo off
rem Windows: double-click to install once and open the page.
setlocal
cd /d "%~dp0.."
if exist .venv\.started-2 goto run
if not exist .venv\Scripts\python.exe py -3.12 -m venv .venv || py -3.11 -m venv .venv || goto failed
.venv\Scripts\python -m pip install -r requirements.txt -c requirements.lock || goto failed
rem PyPI's PyTorch has no CUDA on Windows: the build for the GPU comes from PyTorch's own index, which is printed.
.venv\Scripts\python -m scripts.torch_for_gpu && type nul > .venv\.started-2 || echo The build for the GPU could not be installed: this start uses the processor, the next tries again.
:run
start "" /b cmd /c "timeout /t 15 /nobreak >nul & start http://127.0.0.1:7860"
.venv\Scripts\python app.py %*
if not errorlevel 1 exit /b 0
:failed
echo The start failed: see above. Python 3.11 or 3.12 from python.org is needed.
pause
exit /b 1
