# PowerShell completion for opm

Register-ArgumentCompleter -Native -CommandName 'opm' -ScriptBlock {
    param($WordToComplete, $CommandAst, $CursorPosition)

    $Elements = @($CommandAst.CommandElements | Where-Object { $_.Extent.EndOffset -lt $CursorPosition })
    $Program = $CommandAst.CommandElements[0].ToString()
    $Words = @($Elements | Select-Object -Skip 1 | ForEach-Object { $_.ToString() })
    $Current = $WordToComplete
    # Releases before 7.3 drop empty arguments of native commands.
    if ($Current -eq '' -and $PSVersionTable.PSVersion -lt [version]'7.3') { $Current = '""' }

    $Lines = @(& $Program '@COMPLETE@' @Words $Current 2>$null)
    $Directive = 0
    $Values = @()
    foreach ($Line in $Lines) {
        if ($Line -match '^:(\d+)$') { $Directive = [int]$Matches[1] } else { $Values += $Line }
    }
    foreach ($Value in $Values) {
        $Name, $Text = $Value.Split("`t", 2)
        if (-not $Text) { $Text = $Name }
        $Insert = if ($Directive -band 2) { $Name } else { "$Name " }
        [System.Management.Automation.CompletionResult]::new($Insert, $Name, 'ParameterValue', $Text)
    }
    if ($Values.Count -eq 0 -and ($Directive -band 4)) { '' } # no file names
}
